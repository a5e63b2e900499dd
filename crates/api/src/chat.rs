//! The chat route's wire: a turn as the stream of chunks that `useChat` of the AI SDK reads.
//!
//! ```text
//!  posted body --> posted (votes and the new message only) --> admit --> turn
//!                                                                        |
//!  Sessions::follow --> inline (blobs) --> Fold (pure) --> chunks --> frames
//! ```
//!
//! Must: give a client that comes back the same message, whatever it saw before; end every stream
//! by one terminal chunk, or break it off. Must never: take inputs, results of our own tools or
//! history from what a client posts.

pub(crate) mod act;
pub(crate) mod chunk;
mod content;
pub(crate) mod fold;
pub(crate) mod history;
mod inline;
mod message;
pub(crate) mod posted;
mod standing;
pub(crate) mod stream;
mod wire_id;

pub(crate) use wire_id::turn_of;
