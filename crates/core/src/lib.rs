//! The session as a pure state machine: no IO, no clock, no randomness, no tokio.
//!
//! ```text
//!            input                      events
//!  runtime ---------> decide(&Session) ---------> log ---> apply(&mut Session)
//!     ^                                                         |
//!     |            what should be running                       v
//!     +------------------- outstanding(&Session) <----------- Session
//! ```
//!
//! A session is the fold of its log ([`apply()`]). What should be running is a function of that fold
//! ([`outstanding()`]). Which facts follow from an input is a function of both ([`decide()`]).
//!
//! Must: `decide` is total and leaves the session as it is; `apply` cannot fail; equal logs give
//! equal sessions. Must never: read a clock, draw a random number, iterate in an order that
//! depends on the process, panic.
#![warn(missing_docs)]

pub mod apply;
pub mod call;
pub mod child;
pub mod command;
pub mod content;
pub mod decide;
pub mod effect;
pub mod event;
pub mod id;
pub mod input;
pub mod limits;
pub mod offered;
pub mod outstanding;
pub mod receipt;
mod replay;
pub mod session;
mod texts;
pub mod trace;
pub mod transcript;
pub mod wake;
pub mod why;

pub use apply::apply;
pub use decide::{Answer, Decision, decide, decide_ahead};
pub use outstanding::{may_run_ahead, outstanding};
pub use texts::WITHDRAWN;
pub use wake::{next_deadline, wake};
pub use why::{waiting, why};
