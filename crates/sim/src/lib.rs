//! Finds bugs: exhaustive explorer and seeded simulator over the real core and driver.
