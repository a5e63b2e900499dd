//! A log is one history, or it is refused.

use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq};
use steadfast_protocol::DecodeError;
use steadfast_protocol::chain::{self, ChainError, Link};
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};

use crate::samples::{self, NOW};

fn entry(events: Vec<Event>) -> Entry {
    Entry {
        cause: Cause::Timer,
        at: NOW,
        events,
    }
}

fn record(first_seq: u64, epoch: u64, prev: RecordHash, events: usize) -> Record {
    Record {
        first_seq: Seq(first_seq),
        epoch: Epoch(epoch),
        prev,
        entries: vec![
            entry(vec![Event::DeletionStarted]),
            entry(vec![Event::DeletionStarted; events - 1]),
        ],
    }
}

fn bytes(record: &Record) -> Vec<u8> {
    record::encode(record).unwrap()
}

/// The first Record of a session, and the link after it.
fn first() -> (Vec<u8>, Link) {
    let first = record(1, 2, RecordHash::NONE, 3);
    let bytes = bytes(&first);
    let link = Link {
        record: RecordHash::of(&bytes),
        last_seq: Seq(3),
        epoch: Epoch(2),
    };
    assert_eq!(
        chain::verify(&Link::START, &bytes, Seq(1)),
        Ok((first, link))
    );
    (bytes, link)
}

#[test]
fn records_in_a_row_are_one_history() {
    let (_, mut link) = first();
    for n in 0..5 {
        let next = record(4 + 2 * n, 2 + n / 2, link.record, 2);
        let bytes = bytes(&next);
        let (read, after) = chain::verify(&link, &bytes, next.first_seq).unwrap();
        let expected = Link {
            record: RecordHash::of(&bytes),
            last_seq: next.last_seq(),
            epoch: next.epoch,
        };
        assert_eq!((read, after), (next, expected));
        link = after;
    }
}

#[test]
fn a_snapshot_is_a_link() {
    let snapshot = samples::snapshot();
    let next = record(91, 4, snapshot.last_record, 2);
    let read = chain::verify(&Link::from(&snapshot), &bytes(&next), Seq(91));
    assert_eq!(read.map(|(record, _)| record), Ok(next));
}

#[test]
fn missing_and_repeated_records_are_a_gap() {
    let (first_bytes, link) = first();
    let skipped = record(6, 2, link.record, 1);
    let gap = ChainError::Gap {
        expected: Seq(4),
        found: Seq(6),
    };
    assert_eq!(chain::verify(&link, &bytes(&skipped), Seq(6)), Err(gap));
    let gap = ChainError::Gap {
        expected: Seq(4),
        found: Seq(1),
    };
    assert_eq!(chain::verify(&link, &first_bytes, Seq(1)), Err(gap));
}

#[test]
fn a_record_that_follows_another_one_is_a_fork() {
    let (_, link) = first();
    let forked = record(4, 2, RecordHash::of(b"another"), 1);
    assert_eq!(
        chain::verify(&link, &bytes(&forked), Seq(4)),
        Err(ChainError::Forked { first_seq: Seq(4) })
    );
    let orphan = record(1, 1, RecordHash::of(b"another"), 1);
    assert_eq!(
        chain::begin(&bytes(&orphan), Seq(1)),
        Err(ChainError::Forked { first_seq: Seq(1) })
    );
}

#[test]
fn an_epoch_never_falls() {
    let (_, link) = first();
    let fallen = ChainError::EpochFell {
        last: Epoch(2),
        found: Epoch(1),
    };
    let late = record(4, 1, link.record, 1);
    assert_eq!(chain::verify(&link, &bytes(&late), Seq(4)), Err(fallen));
}

#[test]
fn the_note_beside_the_bytes_must_fit() {
    let (bytes, _) = first();
    let mislabelled = ChainError::Mislabelled {
        noted: Seq(2),
        found: Seq(1),
    };
    assert_eq!(
        chain::verify(&Link::START, &bytes, Seq(2)),
        Err(mislabelled)
    );
}

#[test]
fn a_commit_of_nothing_or_of_numbers_that_run_over_is_refused() {
    let nothing = Record {
        entries: vec![entry(Vec::new())],
        ..record(1, 1, RecordHash::NONE, 1)
    };
    let unnumbered = Err(ChainError::Unnumbered { first_seq: Seq(1) });
    assert_eq!(chain::begin(&bytes(&nothing), Seq(1)), unnumbered);
    let endless = record(u64::MAX, 1, RecordHash::NONE, 2);
    let unnumbered = Err(ChainError::Unnumbered {
        first_seq: Seq(u64::MAX),
    });
    assert_eq!(chain::begin(&bytes(&endless), Seq(u64::MAX)), unnumbered);
    assert_eq!(endless.last_seq(), Seq(u64::MAX - 1));
    let before_all = record(0, 1, RecordHash::NONE, 2);
    let unnumbered = Err(ChainError::Unnumbered { first_seq: Seq(0) });
    assert_eq!(chain::begin(&bytes(&before_all), Seq(0)), unnumbered);
}

#[test]
fn a_purged_log_begins_with_a_deletion() {
    let mut deletion = record(40, 5, RecordHash::of(b"purged"), 2);
    let beheaded = Err(ChainError::Beheaded { first_seq: Seq(40) });
    assert_eq!(chain::begin(&bytes(&deletion), Seq(40)), beheaded);
    deletion.entries.push(entry(vec![Event::SessionDeleted]));
    let (read, link) = chain::begin(&bytes(&deletion), Seq(40)).unwrap();
    assert_eq!(read, deletion);
    let again = record(43, 6, link.record, 2);
    let (_, link) = chain::verify(&link, &bytes(&again), Seq(43)).unwrap();
    assert_eq!((link.last_seq, link.epoch), (Seq(44), Epoch(6)));
}

#[test]
fn a_newer_version_is_not_corruption() {
    let (mut bytes, _) = first();
    bytes[0] += 1;
    let newer = DecodeError::Version { found: 2, known: 1 };
    assert_eq!(
        chain::verify(&Link::START, &bytes, Seq(1)),
        Err(ChainError::Decode(newer))
    );
}

#[test]
fn a_changed_byte_breaks_the_chain_at_once_or_at_the_next_record() {
    let (first_bytes, link) = first();
    let second = bytes(&record(4, 2, link.record, 2));
    for position in 0..first_bytes.len() {
        let mut changed = first_bytes.clone();
        changed[position] ^= 0x10;
        let followed = chain::verify(&Link::START, &changed, Seq(1))
            .and_then(|(_, link)| chain::verify(&link, &second, Seq(4)));
        assert!(followed.is_err(), "byte {position}");
    }
}
