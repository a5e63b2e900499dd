//! Finds bugs before users do.
//!
//! ```text
//!  explore:   the real core in a tiny world, every interleaving, states kept as hashes
//!  simulate:  the real runtime on paused time, long random runs, one seed each
//! ```
//!
//! Must: give the same answer on every run; find each bug of [`explore::mutant::Mutant`] when it is
//! put back. Must never: be part of the product.

pub mod explore;
pub mod invariants;
pub mod simulate;
