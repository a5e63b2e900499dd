//! Bytes that nobody wrote.

use std::fmt::Debug;
use std::sync::LazyLock;

use proptest::prelude::*;
use steadfast_protocol::chain::{self, Link};
use steadfast_protocol::{DecodeError, live, mail, record, snapshot};

use crate::samples;

type Decode = fn(&[u8]) -> Result<(), DecodeError>;

fn decoders() -> [Decode; 4] {
    [
        |bytes| record::decode(bytes).map(drop),
        |bytes| mail::decode(bytes).map(drop),
        |bytes| live::decode(bytes).map(drop),
        |bytes| snapshot::decode(bytes).map(drop),
    ]
}

/// All samples as bytes, with what reads them.
fn valid() -> Vec<(Vec<u8>, Decode)> {
    let [record, mail, live, snapshot] = decoders();
    let mut all = Vec::new();
    for value in samples::records().into_values() {
        all.push((record::encode(&value).unwrap(), record));
    }
    for value in samples::letters().into_values() {
        all.push((mail::encode(&value).unwrap(), mail));
    }
    for value in samples::frames().into_values() {
        all.push((live::encode(&value).unwrap(), live));
    }
    all.push((snapshot::encode(&samples::snapshot()).unwrap(), snapshot));
    all
}

fn is_corrupt<T: Debug>(outcome: Result<T, DecodeError>) -> bool {
    matches!(outcome, Err(DecodeError::Corrupt { .. }))
}

#[test]
fn nothing_is_corrupt() {
    for decode in decoders() {
        assert!(is_corrupt(decode(&[])));
    }
}

#[test]
fn version_0_is_corrupt_and_a_newer_one_is_told_apart() {
    for (mut bytes, decode) in valid() {
        let known = bytes[0];
        bytes[0] = 0;
        assert!(is_corrupt(decode(&bytes)));
        bytes[0] = known + 1;
        let found = known + 1;
        assert_eq!(decode(&bytes), Err(DecodeError::Version { found, known }));
        assert_eq!(
            decode(&[u8::MAX]),
            Err(DecodeError::Version {
                found: u8::MAX,
                known
            })
        );
    }
}

#[test]
fn every_truncation_and_every_trailing_byte_is_corrupt() {
    for (bytes, decode) in valid() {
        assert_eq!(decode(&bytes), Ok(()));
        let step = 1 + bytes.len() / 200;
        for length in (0..bytes.len()).step_by(step) {
            assert!(is_corrupt(decode(&bytes[..length])), "{length}");
        }
        for trailing in [0x00, 0xc0, 0x80, 0xff] {
            let longer = [bytes.as_slice(), &[trailing]].concat();
            assert!(is_corrupt(decode(&longer)), "{trailing:x}");
        }
    }
}

#[test]
fn what_is_larger_than_anything_written_is_corrupt() {
    let limits = [
        (1, record::READ_BYTES_MAX),
        (1, mail::LETTER_BYTES_MAX),
        (1, live::FRAME_BYTES_MAX),
        (5, snapshot::SNAPSHOT_BYTES_MAX),
    ];
    for (decode, (version, bytes_max)) in decoders().into_iter().zip(limits) {
        let mut bytes = vec![0xc0; bytes_max + 1];
        bytes[0] = version;
        let error = decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("are allowed"), "{error}");
    }
}

/// Nesting is refused before it is decoded, in every place where JSON may stand, on half
/// the stack that a thread has.
#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let small_stack = std::thread::Builder::new().stack_size(1024 * 1024);
    let run = || {
        for opener in [
            &[0x91_u8][..],
            &[0x81, 0xa1, b'a'],
            &[0x81, 0xa4, b't', b'y', b'p', b'e'],
        ] {
            for levels in [100, 150, 159, 160, 161, 250, 50_000] {
                let mut bytes = vec![1];
                bytes.extend(opener.repeat(levels));
                bytes.push(0xc0);
                for decode in decoders() {
                    assert!(is_corrupt(decode(&bytes)), "{levels}");
                }
            }
        }
        // As deep as is let through, within a record that is otherwise well formed.
        let mut deepest = serde_json::Value::Null;
        for _ in 0..140 {
            deepest = serde_json::json!([deepest]);
        }
        let output = steadfast_core::content::ToolOutput::Json { value: deepest };
        let event = steadfast_core::event::Event::CallResolved {
            call: samples::call(0),
            output: output.into(),
        };
        let mut value = samples::records()["record.call_resolved"].clone();
        value.entries[0].events = vec![event];
        let bytes = record::encode(&value).unwrap();
        assert_eq!(record::decode(&bytes), Ok(value));
    };
    small_stack.spawn(run).unwrap().join().unwrap();
}

#[test]
fn what_would_not_be_read_back_is_not_written() {
    let mut deep = serde_json::Value::Null;
    for _ in 0..200 {
        deep = serde_json::json!([deep]);
    }
    let mut frame = samples::frames()["frame.tool_progress"].clone();
    frame.delta = steadfast_protocol::live::Delta::ToolProgress {
        call: samples::call(0),
        output: deep,
    };
    let error = live::encode(&frame).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a live frame is nested too deeply to be read back"
    );
    frame.delta = steadfast_protocol::live::Delta::Text {
        part: 0,
        text: "x".repeat(live::FRAME_BYTES_MAX),
    };
    let error = live::encode(&frame).unwrap_err().to_string();
    assert!(error.starts_with("a live frame of"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_refused_in_peace(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), version in 0_u8..3) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        for decode in decoders() {
            prop_assert!(decode(&bytes).is_err());
        }
        prop_assert!(chain::verify(&Link::START, &bytes, Link::START.last_seq.next()).is_err());
    }

    /// Bytes that look more like MessagePack than random ones do: short lengths, many markers.
    #[test]
    fn random_markers_are_refused_in_peace(
        drawn in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let markers: Vec<u8> = (0x7d..0x86).chain(0x90..0x96).chain(0xa0..0xa4).chain(0xbf..=0xe1).collect();
        let tokens = drawn.iter().map(|byte| markers[usize::from(*byte) % markers.len()]);
        let bytes: Vec<u8> = [1].into_iter().chain(tokens).collect();
        for decode in decoders() {
            prop_assert!(decode(&bytes).is_err());
        }
    }

    /// Changed bytes are refused, or are another value that is written and read again unchanged.
    #[test]
    fn mutated_bytes_never_do_harm(
        which in any::<prop::sample::Index>(),
        mutations in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        static VALID: LazyLock<Vec<(Vec<u8>, Decode)>> = LazyLock::new(valid);
        let (bytes, decode) = which.get(&VALID);
        let mut bytes = bytes.clone();
        for (position, byte) in mutations {
            let position = position.index(bytes.len() - 1) + 1;
            bytes[position] = byte;
        }
        if let Some(cut) = cut {
            let at = cut.index(bytes.len() - 1) + 1;
            let removed = bytes.remove(at);
            bytes.insert(at / 2 + 1, removed);
        }
        let outcome = decode(&bytes);
        prop_assert!(outcome.is_ok() || is_corrupt(outcome));
        if let Ok(value) = record::decode(&bytes) {
            let again = record::encode(&value).unwrap();
            prop_assert_eq!(record::decode(&again), Ok(value));
        }
    }
}
