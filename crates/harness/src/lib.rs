//! Model providers and the native loop's model calls.
//!
//! ```text
//!  Session transcript --request.rs--> ModelRequest --wire encode--> bytes --> provider
//!  ModelReply, deltas <--wire decode-- server-sent events <------------------ provider
//! ```
//!
//! Must: call a reply complete only at the wire's own terminal event; keep what only the provider
//! can read, and send it back in order. Must never: retry by itself; answer for a provider.
#![warn(missing_docs)]

pub mod provider;
pub mod request;

pub mod native;

pub mod scripted;

mod failure;
mod reply;
