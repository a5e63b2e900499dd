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
//! | the connection is lost, or the call is cancelled or out of time (the server is told) | unknown |
//!
//! Both generations of the protocol are spoken: a server is first asked in the newer one, and in the
//! older one if it does not know it. A server's hints about its tools count only if it is trusted.

mod connection;
mod handler;
mod names;
mod options;
mod process;
mod result;
mod server;
mod tool;
mod transport;

pub use options::{McpOptions, McpServerError, McpTransport};
pub use server::{McpServer, Seen};
