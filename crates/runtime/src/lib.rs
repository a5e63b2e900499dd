//! Keeps sessions alive: actors, driver, dispatch, pools.
