//! Steadfast: durable AI-agent sessions, as one binary and a library.
pub mod config;
