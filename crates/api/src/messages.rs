//! A session's log as a conversation: messages of people and of the agent, with their parts.
//!
//! ```text
//!  new records --> outline: where each message stands (remembered)
//!                     |
//!  a page's records --> Fold (pure, one event at a time) --> messages with references to blobs
//!                                                                 |
//!                                                               load --> JSON
//! ```
//!
//! The log keeps everything, so the whole conversation is shown, also what was compacted; only what
//! was rewound is not. A fold keeps the bodies of one page only; of all others it keeps their place.

pub(crate) mod fold;
pub(crate) mod load;
pub(crate) mod outlines;
mod packed;
pub(crate) mod page;
pub(crate) mod view;
