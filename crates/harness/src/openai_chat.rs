//! OpenAI's Chat Completions, and the many servers that are compatible with it.
//!
//! `native` of reasoning says in which field of the message it came, that of a call is what the
//! tool call holds besides its function, that of text is what the message holds beside it.

mod decode;
mod dialect;
mod encode;
mod tool_calls;
mod usage;

pub use decode::Decoder;
pub use dialect::Dialect;
pub(crate) use encode::cache_key;
pub use encode::encode;
