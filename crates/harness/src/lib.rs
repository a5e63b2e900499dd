//! Model providers and the native loop's model calls.
//!
//! ```text
//!  Session transcript --native--> ModelRequest --wire encode--> bytes --transport--> provider
//!  ModelReply, deltas <--wire decode-- server-sent events <-----------transport------ provider
//! ```
//!
//! Must: call a reply complete only at the wire's own terminal event; keep what only the provider
//! can read, and send it back in order; let no request leave that is not proven valid. Must never:
//! retry by itself; answer for a provider; show a key.
#![warn(missing_docs)]

pub mod provider;
pub mod request;

pub mod native;

pub mod wire;

pub mod anthropic;
pub mod openai_chat;
pub mod openai_responses;

pub mod secret;
pub mod transport;

pub mod scripted;

mod call_id;
mod failure;
mod json;
mod options;
mod render;
mod reply;
mod schema;
mod windows;
