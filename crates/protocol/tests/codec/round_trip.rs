//! Whatever is written is read back equal.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use steadfast_protocol::record::{Record, RecordHash};
use steadfast_protocol::{encoded_bytes, live, mail, record, snapshot};

use crate::samples;
use crate::varied::{Draws, varied};

fn draws() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 0..120)
}

fn pick<'a, T>(samples: &'a BTreeMap<String, T>, which: &prop::sample::Index) -> &'a T {
    samples.values().nth(which.index(samples.len())).unwrap()
}

/// Bytes of a value without its version.
fn size<T: Serialize>(value: &T) -> usize {
    encoded_bytes(value).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_come_back_equal(which: prop::sample::Index, draws in draws(), first_seq: u64, epoch: u64, prev: [u8; 32]) {
        let sample = Record {
            first_seq: steadfast_core::id::Seq(first_seq),
            epoch: steadfast_core::id::Epoch(epoch),
            prev: RecordHash(prev),
            ..pick(&samples::records(), &which).clone()
        };
        let value = varied(&sample, &mut Draws::new(draws));
        let bytes = record::encode(&value).unwrap();
        prop_assert_eq!(size(&value) + 1, bytes.len());
        prop_assert_eq!(record::decode(&bytes), Ok(value));
    }

    #[test]
    fn letters_come_back_equal(which: prop::sample::Index, draws in draws()) {
        let value = varied(pick(&samples::letters(), &which), &mut Draws::new(draws));
        let bytes = mail::encode(&value).unwrap();
        prop_assert_eq!(size(&value) + 1, bytes.len());
        prop_assert_eq!(mail::decode(&bytes), Ok(value));
    }

    #[test]
    fn live_frames_come_back_equal(which: prop::sample::Index, draws in draws()) {
        let value = varied(pick(&samples::frames(), &which), &mut Draws::new(draws));
        let bytes = live::encode(&value).unwrap();
        prop_assert_eq!(size(&value) + 1, bytes.len());
        prop_assert_eq!(live::decode(&bytes), Ok(value));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_come_back_equal(draws in draws()) {
        let value = varied(&samples::snapshot(), &mut Draws::new(draws));
        let bytes = snapshot::encode(&value).unwrap();
        prop_assert_eq!(size(&value) + 1, bytes.len());
        prop_assert_eq!(snapshot::decode(&bytes), Ok(value));
    }
}
