//! OpenAI's Responses, stateless: nothing is stored there, reasoning comes encrypted and goes back.
//!
//! `native` holds the item as it came, without what the common fields tell: of text its item and
//! its content part, of a call its item, of anything else the whole item.

mod decode;
mod encode;
mod items;

pub use decode::Decoder;
pub use encode::encode;
