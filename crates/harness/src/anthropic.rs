//! Anthropic's Messages.
//!
//! `native` of a part is what its content block holds besides the common fields: signatures,
//! citations, the caller of a tool. A block without common fields is kept whole.

mod cache;
mod decode;
mod encode;
mod fold;
mod model;

pub use decode::Decoder;
pub use encode::encode;
pub(crate) use model::{beta_header, context_window_tokens};
