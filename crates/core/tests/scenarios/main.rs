//! Scenarios: inputs in, the printed event log out. `UPDATE_EXPECT=1 cargo test -p steadfast-core`
//! rewrites the expectations; read the difference before it is committed.

mod calls;
mod commands;
mod lifecycle;
mod model;
mod properties;
mod turns;
mod world;
