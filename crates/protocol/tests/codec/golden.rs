//! Bytes that were once written are read for ever, and are written the same today.
//!
//! `tests/golden` holds the bytes of one value of every kind, named after it. A file that exists is
//! never changed: what it holds may stand in somebody's log. For a new kind, give it a value in
//! `samples`, for a new shape of an old kind one in `samples::added`, and run the tests once with
//! `STEADFAST_WRITE_GOLDEN=1`, which writes the files that are missing; then check them in. An old shape that is no longer written keeps its file, its
//! value moves to a test of its own that only reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::command::{CommandBody, Settler, WhenBusy};
use steadfast_core::content::{
    CallInput, ContentPart, FileSource, Finish, ReplyPart, Stored, ToolOutput,
};
use steadfast_core::effect::{Effect, Wake};
use steadfast_core::event::{Event, Notice, Rejection, Settlement, TurnOutcome, Verdict};
use steadfast_core::input::{Durability, Gate, InDoubtPolicy, Place, ReplayRule};
use steadfast_protocol::live::Delta;
use steadfast_protocol::mail::Mail;
use steadfast_protocol::record::Cause;
use steadfast_protocol::{live, mail, record, snapshot};

use crate::samples;

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// The bytes of a golden file. With `STEADFAST_WRITE_GOLDEN`, a missing one is written first.
fn golden(name: &str, today: &[u8]) -> Vec<u8> {
    let path = directory().join(format!("{name}.bin"));
    let is_missing = !path.exists();
    if is_missing && std::env::var_os("STEADFAST_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, today).unwrap();
    }
    let unread = |error| format!("{name}: {error}; see the top of tests/codec/golden.rs");
    std::fs::read(&path).map_err(unread).unwrap()
}

#[test]
fn records_are_read_and_written_as_ever() {
    for (name, value) in samples::records() {
        let today = record::encode(&value).unwrap();
        let bytes = golden(&name, &today);
        assert_eq!(record::decode(&bytes).as_ref(), Ok(&value), "{name}");
        assert_eq!(today, bytes, "{name} is written otherwise than before");
    }
}

#[test]
fn letters_are_read_and_written_as_ever() {
    for (name, value) in samples::letters() {
        let today = mail::encode(&value).unwrap();
        let bytes = golden(&name, &today);
        assert_eq!(mail::decode(&bytes).as_ref(), Ok(&value), "{name}");
        assert_eq!(today, bytes, "{name} is written otherwise than before");
    }
}

#[test]
fn live_frames_are_read_and_written_as_ever() {
    for (name, value) in samples::frames() {
        let today = live::encode(&value).unwrap();
        let bytes = golden(&name, &today);
        assert_eq!(live::decode(&bytes).as_ref(), Ok(&value), "{name}");
        assert_eq!(today, bytes, "{name} is written otherwise than before");
    }
}

/// Snapshots are disposable, so this file may be replaced, but never without a new version: a node
/// would misread what the release before it wrote.
#[test]
fn snapshots_of_one_version_have_one_shape() {
    let value = samples::snapshot();
    let today = snapshot::encode(&value).unwrap();
    let name = format!("snapshot.{}", today[0]);
    let bytes = golden(&name, &today);
    assert_eq!(snapshot::decode(&bytes).as_ref(), Ok(&value));
    assert!(
        today == bytes,
        "the shape changed: raise the version in snapshot.rs and write a new golden file"
    );
}

/// A release that takes the place of another opens its sessions as fast.
#[test]
fn snapshots_of_the_version_before_are_read() {
    let bytes = golden("snapshot.5", &[]);
    assert_eq!(snapshot::decode(&bytes), Ok(samples::snapshot_5()));
}

/// As for snapshots, whose part they are.
#[test]
fn runs_of_receipts_of_one_version_have_one_shape() {
    let value = samples::receipt_blocks();
    let today = snapshot::encode_receipts(&value).unwrap();
    let bytes = golden(&format!("receipts.{}", today[0]), &today);
    assert_eq!(snapshot::decode_receipts(&bytes).as_ref(), Ok(&value));
    assert!(
        today == bytes,
        "the shape changed: raise the version in snapshot.rs and write a new golden file"
    );
}

#[test]
fn every_golden_file_belongs_to_a_value() {
    let mut names: BTreeSet<String> = samples::records().into_keys().collect();
    names.extend(samples::letters().into_keys());
    names.extend(samples::frames().into_keys());
    let version = snapshot::encode(&samples::snapshot()).unwrap()[0];
    names.insert(format!("snapshot.{version}"));
    names.insert("snapshot.5".into());
    let version = snapshot::encode_receipts(&samples::receipt_blocks()).unwrap()[0];
    names.insert(format!("receipts.{version}"));
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        files.insert(file.strip_suffix(".bin").unwrap_or(&file).to_owned());
    }
    assert_eq!(files, names);
}

/// The names of a type's variants, which serde lists when it is given another.
fn variants<T: DeserializeOwned>(unknown: Value) -> Vec<String> {
    let error = serde_json::from_value::<T>(unknown)
        .err()
        .expect("no variant has this name")
        .to_string();
    let (_, expected) = error
        .split_once("expected")
        .expect("serde lists the variants");
    let names = expected.split('`').skip(1).step_by(2);
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(!names.is_empty(), "{error}");
    names
}

fn tagged<T: DeserializeOwned>() -> Vec<String> {
    variants::<T>(json!({"type": "?"}))
}

fn plain<T: DeserializeOwned>() -> Vec<String> {
    variants::<T>(json!("?"))
}

#[test]
fn every_event_letter_and_frame_has_a_golden_file() {
    let records = samples::records();
    for name in tagged::<Event>() {
        assert!(records.contains_key(&format!("record.{name}")), "{name}");
    }
    let letters = samples::letters();
    let commands = tagged::<CommandBody>().into_iter();
    let commands = commands.map(|name| format!("letter.command.{name}.1"));
    let others = tagged::<Mail>()
        .into_iter()
        .filter(|name| name != "command");
    for name in commands.chain(others.map(|name| format!("letter.{name}.1"))) {
        assert!(letters.contains_key(&name), "{name}");
    }
    let frames = samples::frames();
    for name in tagged::<Delta>() {
        assert!(frames.contains_key(&format!("frame.{name}")), "{name}");
    }
}

/// All names and texts within a value.
fn words(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| words(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(name.clone());
                words(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn every_variant_within_an_event_stands_in_a_golden_file() {
    let mut found = BTreeSet::new();
    words(&json!(samples::records()), &mut found);
    words(&json!(samples::letters()), &mut found);
    let expected = BTreeMap::from([
        ("Cause", tagged::<Cause>()),
        ("Effect", tagged::<Effect>()),
        ("Verdict", tagged::<Verdict>()),
        ("TurnOutcome", tagged::<TurnOutcome>()),
        ("Notice", tagged::<Notice>()),
        ("Gate", tagged::<Gate>()),
        ("ToolOutput", tagged::<ToolOutput>()),
        ("ContentPart", tagged::<ContentPart>()),
        ("ReplyPart", tagged::<ReplyPart>()),
        ("FileSource", variants::<FileSource>(json!({"kind": "?"}))),
        ("Rejection", plain::<Rejection>()),
        ("Settlement", plain::<Settlement>()),
        ("Finish", plain::<Finish>()),
        ("WhenBusy", plain::<WhenBusy>()),
        ("Wake", plain::<Wake>()),
        ("ReplayRule", plain::<ReplayRule>()),
        ("Durability", plain::<Durability>()),
        ("InDoubtPolicy", plain::<InDoubtPolicy>()),
        ("Place", plain::<Place>()),
        ("CallInput", plain::<CallInput>()),
        ("Settler", plain::<Settler>()),
        ("Stored", plain::<Stored<String>>()),
    ]);
    for (kind, names) in expected {
        for name in names {
            assert!(found.contains(&name), "no sample holds {kind} {name}");
        }
    }
}
