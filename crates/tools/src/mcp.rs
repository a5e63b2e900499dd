//! Tools of MCP servers: listed by the servers themselves, run there, and treated as any other tool.
//!
//! ```text
//!  McpServer::run: reach -> list -> stock -> wait ---- list changed: list again
//!       ^                                      |
//!       +---- wait with jitter <---------------+ closed, died, stopped answering
//!
//!  McpTool::run: wait until it is reached -> tools/call -> outcome
//! ```
//!
//! | what happens to a call | its outcome |
//! |---|---|
//! | the server cannot be reached, or the request certainly did not leave | did nothing, may be tried again |
//! | a result, or an error of the protocol | done: a result, or an error for the model |
//! | the server asks somebody something | a question of the call, which goes on with the answer |
//! | the connection is lost, or the call is cancelled or out of time (the server is told) | unknown |
//!
//! A server of the older generation holds its call open while it asks: the request is kept in memory,
//! and if it is lost meanwhile the rule of the call decides. One of the newer ends the call with the
//! question, and goes on from what it was given back, on any node.
//!
//! Both generations of the protocol are spoken: a server is first asked in the newer one, and in the
//! older one if it does not know it. A server's hints about its tools count only if it is trusted.

mod connection;
mod handler;
mod names;
mod options;
mod parked;
mod process;
mod question;
mod result;
mod server;
mod tool;
mod transport;

pub use options::{McpOptions, McpServerError, McpTransport};
pub use server::{McpServer, Seen};
