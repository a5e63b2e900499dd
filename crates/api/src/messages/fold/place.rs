//! Where each message of a conversation stands, without what it says.

use std::cmp::Ordering::Greater;
use std::ops::Range;

use imbl::Vector;
use steadfast_core::id::{Seq, TurnId};

use crate::messages::view::Role;

/// A message's place in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The event that put it here.
    pub(super) seq: Seq,
    /// The event that holds what it says first: that of its arrival, of a message that waited.
    pub(super) from: Seq,
    /// The last event that is about it.
    pub(super) last: Seq,
    pub(super) turn: Option<TurnId>,
    pub(super) role: Role,
    /// About how many bytes its parts have.
    pub(super) size_bytes: usize,
}

/// What must be read of a log to see some messages whose places are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Messages that waited arrived from this event on.
    pub(crate) from: Seq,
    /// From this event on everything counts.
    pub(crate) start: Seq,
    /// What comes later changes nothing.
    pub(crate) end: Seq,
    /// Messages that stand before `start`.
    pub(super) before: usize,
}

/// The span of the messages at these positions.
pub(super) fn span(places: &Vector<Place>, range: &Range<usize>) -> Option<Span> {
    let start = places.get(range.start)?.seq;
    // An event that copies a conversation puts many messages here.
    let before = places.binary_search_by(|place| place.seq.cmp(&start).then(Greater));
    let before = before.unwrap_or_else(|position| position);
    let mut end = start;
    for place in places.iter().take(range.end).skip(range.start) {
        end = end.max(place.last);
    }
    let among = places.iter().skip(before);
    let among = among.take_while(|place| place.seq <= end);
    let from = among.map(|place| place.from).min()?;
    Some(Span {
        from,
        start,
        end,
        before,
    })
}
