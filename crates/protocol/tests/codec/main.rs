//! What is written is read back, for ever; what was never written is refused, always.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod chains;
mod golden;
mod hostile;
mod round_trip;
mod samples;
mod sizes;
mod varied;
