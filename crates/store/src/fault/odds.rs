//! How often what goes wrong.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::operation::{Fault, Operation};

/// Chances of each fault, in thousandths of the calls that it can happen to, and bounds of what is
/// drawn. Corruption is never drawn: it must be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Odds {
    /// [`Fault::LostAck`].
    pub lost_ack_permille: u32,
    /// [`Fault::LostRequest`].
    pub lost_request_permille: u32,
    /// [`Fault::Ghost`].
    pub ghost_permille: u32,
    /// [`Fault::Unavailable`].
    pub unavailable_permille: u32,
    /// [`Fault::Refused`].
    pub refused_permille: u32,
    /// [`Fault::Conflict`].
    pub conflict_permille: u32,
    /// [`Fault::Stale`].
    pub stale_permille: u32,
    /// [`Fault::Forgotten`].
    pub forgotten_permille: u32,
    /// [`Fault::Repeat`].
    pub repeat_permille: u32,
    /// [`Fault::Lost`].
    pub lost_permille: u32,
    /// [`Fault::NoResponders`].
    pub no_responders_permille: u32,
    /// [`Fault::InFlight`].
    pub in_flight_permille: u32,
    /// A repeated append conflicts with its own first sending, landed or in flight.
    pub own_conflict_permille: u32,
    /// The connection is cut, for all calls.
    pub cut_permille: u32,
    /// A call takes up to this long.
    pub latency_max: Duration,
    /// A ghost comes up to this much later.
    pub ghost_delay_max: Duration,
    /// A cut lasts up to this long.
    pub cut_max: Duration,
}

impl Odds {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        lost_ack_permille: 0,
        lost_request_permille: 0,
        ghost_permille: 0,
        unavailable_permille: 0,
        refused_permille: 0,
        conflict_permille: 0,
        stale_permille: 0,
        forgotten_permille: 0,
        repeat_permille: 0,
        lost_permille: 0,
        no_responders_permille: 0,
        in_flight_permille: 0,
        own_conflict_permille: 0,
        cut_permille: 0,
        latency_max: Duration::ZERO,
        ghost_delay_max: Duration::ZERO,
        cut_max: Duration::ZERO,
    };

    /// Everything goes wrong that a cluster does on a bad day, and nothing that needs a person: no
    /// refusals, and no rivals nor appends of others, which a simulation has of its own.
    pub const ROUGH: Self = Self {
        lost_ack_permille: 30,
        lost_request_permille: 20,
        ghost_permille: 30,
        unavailable_permille: 30,
        refused_permille: 0,
        conflict_permille: 0,
        stale_permille: 100,
        forgotten_permille: 20,
        repeat_permille: 50,
        lost_permille: 100,
        no_responders_permille: 50,
        in_flight_permille: 0,
        own_conflict_permille: 500,
        cut_permille: 2,
        latency_max: Duration::from_millis(5),
        ghost_delay_max: Duration::from_secs(20),
        cut_max: Duration::from_secs(9),
    };

    /// Draws what happens to a call.
    pub(super) fn draw(&self, rng: &mut SmallRng, operation: Operation) -> Option<Fault> {
        let delay = draw_duration(rng, self.ghost_delay_max);
        let records = rng.random_range(1..=3);
        let chances = [
            (self.lost_ack_permille, Fault::LostAck),
            (self.lost_request_permille, Fault::LostRequest),
            (self.ghost_permille, Fault::Ghost { delay }),
            (self.unavailable_permille, Fault::Unavailable),
            (self.refused_permille, Fault::Refused),
            (self.conflict_permille, Fault::Conflict),
            (self.stale_permille, Fault::Stale { records }),
            (self.forgotten_permille, Fault::Forgotten),
            (self.repeat_permille, Fault::Repeat),
            (self.lost_permille, Fault::Lost),
            (self.no_responders_permille, Fault::NoResponders),
            (self.in_flight_permille, Fault::InFlight),
        ];
        let mut ticket = rng.random_range(0..1_000);
        for (permille, fault) in chances {
            if !fault.fits(operation) {
                continue;
            }
            if ticket < permille {
                return Some(fault);
            }
            ticket -= permille;
        }
        None
    }
}

/// A whole number of milliseconds up to `max`.
pub(super) fn draw_duration(rng: &mut SmallRng, max: Duration) -> Duration {
    let max_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.random_range(0..=max_ms))
}
