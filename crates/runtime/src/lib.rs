//! Keeps sessions alive: actors, driver, dispatch, tool pools, timers, passivation.
//!
//! ```text
//!   api --admit--> Sessions --+--> actor (owned here) --> Driver --> decide, append, apply
//!                             |                             |  ^
//!                             +--> log (idle session)       v  |  outcomes
//!                             +--> mailbox (else)        Dispatcher: outstanding() against running
//!                                                           |
//!                                                           +--> model calls, tool calls, timers
//! ```
//!
//! Must: start an effect only when what asks for it is committed, or, for the few that may run
//! ahead, in the one Record in flight; stop at the first conflict. Must never: keep state that the
//! log does not hold and that matters; retry an append with other bytes.
#![warn(missing_docs)]

pub mod agent;
pub mod sessions;
