//! A session whose log is damaged is repaired, and goes on.

use std::collections::BTreeSet;

use steadfast_core::command::CommandBody;
use steadfast_core::event::{Event, Settlement, TurnOutcome, Verdict};
use steadfast_core::id::{CallId, CommandId, Seq, SessionKey};
use steadfast_core::receipt::End;
use steadfast_protocol::record::Record;
use steadfast_runtime::sessions::{Admission, Followed, RepairError, RowState};
use steadfast_store::directory::{DirectoryQuery, Status};

use crate::world::{Damage, Node, World, calls, caught_up, command, key, message};

fn id(text: &str) -> CommandId {
    CommandId::new(text).unwrap()
}

fn holds(record: &Record, matches: impl Fn(&Event) -> bool) -> bool {
    let mut events = record.entries.iter().flat_map(|entry| &entry.events);
    events.any(matches)
}

/// The first event of the first Record that holds such an event.
async fn row_with(world: &World, key: &SessionKey, matches: impl Fn(&Event) -> bool) -> Seq {
    let records = world.records(key).await;
    let record = records.iter().find(|record| holds(record, &matches));
    record.unwrap().first_seq
}

fn settles(event: &Event, wanted: &str) -> bool {
    matches!(event, Event::CommandSettled { command, .. } if command.as_str() == wanted)
}

/// A session of three messages, each with a call that must not be repeated.
async fn three_messages(world: &World, node: &Node) -> SessionKey {
    let key = key("s");
    for message in ["m1", "m2", "m3"] {
        node.send(&key, message, &calls(&["charge"])).await;
        assert_eq!(node.end_of(&key, message).await, End::Completed);
    }
    node.until_gone().await;
    world.stores.snapshots.remove(&key).await.unwrap();
    key
}

async fn listed(node: &Node, key: &SessionKey) -> Vec<Status> {
    let query = DirectoryQuery {
        limit: 10,
        ..DirectoryQuery::default()
    };
    let list = node.sessions.list(&key.tenant, query).await.unwrap();
    list.iter().map(|(_, entry)| entry.status).collect()
}

/// What followers are given, as Records, and the number of the first event of each.
async fn given(node: &Node, key: &SessionKey) -> Vec<Seq> {
    let given = caught_up(node, key, Seq(0)).await;
    given
        .iter()
        .filter_map(|followed| match followed {
            Followed::Record { record, .. } => Some(record.first_seq),
            _ => None,
        })
        .collect()
}

async fn check_goes_on(world: &World, node: &Node, key: &SessionKey) {
    node.send(key, "m9", &calls(&["look"])).await;
    assert_eq!(node.end_of(key, "m9").await, End::Completed);
    node.until_gone().await;
    // So does a process that has no snapshot, and one that has.
    for keep in [true, false] {
        if !keep {
            world.stores.snapshots.remove(key).await.unwrap();
        }
        let other = world.start().await;
        let session = other.sessions.load(key).await.unwrap();
        assert!(session.receipts.get(&id("m9")).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_repaired_session_keeps_what_can_be_read_and_runs_nothing_again() {
    for damage in [
        Damage::Flipped,
        Damage::Torn,
        Damage::Gone,
        Damage::Unreadable,
    ] {
        let world = World::new();
        let node = world.start().await;
        let key = three_messages(&world, &node).await;
        let bad = row_with(&world, &key, |event| settles(event, "m2")).await;
        world.log.damage(&key, bad, damage);
        let refused = node.sessions.admit(&key, message("m4", "hello")).await;
        assert!(refused.is_err(), "{damage:?}");
        assert_eq!(listed(&node, &key).await, [Status::Quarantined]);

        let repaired = node.sessions.repair(&key, id("r1")).await.unwrap();
        assert_eq!((repaired.after.next(), repaired.first), (bad, true));
        let again = node.sessions.repair(&key, id("r1")).await.unwrap();
        assert_eq!((again.before, again.first), (repaired.before, false));
        let other = node.sessions.repair(&key, id("r2")).await;
        assert_eq!(other, Err(RepairError::NotQuarantined));
        assert_eq!(listed(&node, &key).await, [Status::Idle]);

        // What was answered in the part that can still be read gets the same answer.
        let session = node.sessions.load(&key).await.unwrap();
        for message in ["m1", "m3"] {
            assert_eq!(
                node.end_of(&key, message).await,
                End::Completed,
                "{message}"
            );
        }
        // Its own Record is what is damaged; where it can be read all the same, it still counts.
        let known = session.receipts.get(&id("m2")).is_some();
        assert_eq!(known, damage == Damage::Flipped, "{damage:?}");
        let again = message("m3", &calls(&["charge"]));
        let Ok(Admission::Decided { first, .. }) = node.sessions.admit(&key, again).await else {
            panic!("not decided")
        };
        assert!(!first);
        assert_eq!(world.ledger.count("charge"), 3);
        let note = session.transcript.notes.iter().next().unwrap();
        assert!(note.contains("damaged"), "{note}");

        check_goes_on(&world, &node, &key).await;
        assert_eq!(world.ledger.count("charge"), 3);
        let rows = given(&node, &key).await;
        assert!(
            rows.iter()
                .all(|first| *first < bad || *first >= repaired.before)
        );
        assert!(rows.contains(&repaired.before) && rows.iter().any(|first| *first < bad));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_started_in_the_lost_part_is_in_doubt() {
    let world = World::new();
    let key = key("s");
    let first = world.start().await;
    first.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    first.crash().await;
    let started = |event: &Event| matches!(event, Event::CallStarted { .. });
    let bad = row_with(&world, &key, started).await;
    world.log.damage(&key, bad, Damage::Flipped);

    let second = world.start().await;
    let repaired = second.sessions.repair(&key, id("r1")).await.unwrap();
    let outcome = &repaired.session.last_turn.as_ref().unwrap().outcome;
    assert!(
        matches!(outcome, TurnOutcome::Failed { code, .. } if code == "log_damaged"),
        "{outcome:?}"
    );
    check_goes_on(&world, &second, &key).await;
    assert_eq!(world.ledger.count("hang"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_open_call_ends_as_the_lost_part_says() {
    let world = World::new();
    let key = key("s");
    let node = world.start().await;
    node.send(&key, "m1", &calls(&["charge", "hang"])).await;
    world.ledger.hanging.notified().await;
    world.ledger.gate.0.add_permits(1);
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    node.until_gone().await;
    world.stores.snapshots.remove(&key).await.unwrap();
    // The Record between the one that asks for the calls and the one that has their results.
    let records = world.records(&key).await;
    let asked = records
        .iter()
        .position(|record| holds(record, |event| matches!(event, Event::ModelReplied { .. })));
    let bad = records[asked.unwrap() + 1].first_seq;
    world.log.damage(&key, bad, Damage::Flipped);
    let settled_later: BTreeSet<CallId> = records[asked.unwrap() + 2..]
        .iter()
        .flat_map(|record| record.entries.iter().flat_map(|entry| &entry.events))
        .filter_map(|event| match event {
            Event::CallSettled { call, .. } => Some(*call),
            _ => None,
        })
        .collect();

    let repaired = node.sessions.repair(&key, id("r1")).await.unwrap();
    let records = world.records_readable(&key).await;
    let last = records.last().unwrap();
    let events = last.entries.iter().flat_map(|entry| &entry.events);
    for event in events {
        if let Event::CallSettled {
            call, settlement, ..
        } = event
        {
            let read = settled_later.contains(call);
            let expected = if read {
                Settlement::Done
            } else {
                Settlement::InDoubt
            };
            assert_eq!(*settlement, expected, "{call}");
        }
    }
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    assert!(repaired.session.turn.is_none());
    check_goes_on(&world, &node, &key).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_is_repaired_with_numbers_above_all_that_were_given_out() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    // A process that was stopped wrote a snapshot of Records that the disk then forgot.
    node.send(&key, "m4", "hello").await;
    assert_eq!(node.end_of(&key, "m4").await, End::Completed);
    node.until_gone().await;
    let whole = node.sessions.load(&key).await.unwrap();
    let cut = World::new();
    let records = world.raw(&key).await;
    let kept = records.len() - 2;
    cut.append_raw(&key, &records[..kept]).await;
    let snapshot = world.stores.snapshots.get(&key).await.unwrap().unwrap();
    cut.stores.snapshots.put(&key, snapshot).await.unwrap();

    let node = cut.start().await;
    let refused = node.sessions.load(&key).await;
    assert!(refused.is_err(), "{refused:?}");
    let repaired = node.sessions.repair(&key, id("r1")).await.unwrap();
    assert!(repaired.before > whole.seq);
    assert!(repaired.session.epoch > whole.epoch);
    check_goes_on(&cut, &node, &key).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_of_which_nothing_can_be_read_can_be_made_again() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    let before = world.records(&key).await;
    for record in &before {
        world.log.damage(&key, record.first_seq, Damage::Torn);
    }
    let repaired = node.sessions.repair(&key, id("r1")).await.unwrap();
    assert_eq!(repaired.after, Seq(0));
    assert!(repaired.session.profile().is_none());
    assert!(repaired.before > before.last().unwrap().last_seq());
    check_goes_on(&world, &node, &key).await;
}

#[tokio::test(start_paused = true)]
async fn a_repair_holds_though_what_was_damaged_can_be_read_again() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    let bad = row_with(&world, &key, |event| settles(event, "m2")).await;
    world.log.damage(&key, bad, Damage::Unreadable);
    node.sessions.repair(&key, id("r1")).await.unwrap();
    let repaired = node.sessions.load(&key).await.unwrap();
    world.log.heal();
    let healed = world.start().await.sessions.load(&key).await.unwrap();
    assert_eq!(healed, repaired);
    check_goes_on(&world, &node, &key).await;
}

#[tokio::test(start_paused = true)]
async fn the_rows_that_a_repair_gives_up_are_told() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    assert_eq!(node.sessions.damage(&key).await, Ok(None));
    let rows = world.raw(&key).await;
    let bad = row_with(&world, &key, |event| settles(event, "m2")).await;
    for (damage, what) in [
        (Damage::Unreadable, "unreadable"),
        (Damage::Torn, "damaged"),
    ] {
        world.stores.snapshots.remove(&key).await.unwrap();
        world.log.damage(&key, bad, damage);
        let told = node.sessions.damage(&key).await.unwrap().unwrap();
        let states = told.rows.iter().map(|row| match &row.state {
            RowState::Unreadable { .. } => "unreadable",
            RowState::Damaged { .. } => "damaged",
            RowState::Record { .. } => "record",
        });
        let at = rows.iter().position(|row| row.first_seq == bad).unwrap();
        let expected = std::iter::once(what).chain(rows[at + 1..].iter().map(|_| "record"));
        assert!(states.eq(expected), "{told:?}");
        let places = told.rows.iter().map(|row| row.row);
        assert!(
            places.eq(rows[at..].iter().map(|row| row.tail.0)),
            "{told:?}"
        );
        let before = Seq(bad.0 - 1);
        assert_eq!((told.readable_through, told.rows_untold), (before, 0));
        world.log.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_repaired_again_after_it_was_damaged_again() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    let mut befores = BTreeSet::new();
    for (round, wanted) in ["m3", "m2", "m1"].iter().enumerate() {
        let bad = row_with(&world, &key, |event| settles(event, wanted)).await;
        world.stores.snapshots.remove(&key).await.unwrap();
        world.log.damage(&key, bad, Damage::Flipped);
        let repaired = node.sessions.repair(&key, id(&format!("r{round}"))).await;
        assert!(befores.insert(repaired.unwrap().before));
    }
    check_goes_on(&world, &node, &key).await;
}

/// Whatever row is damaged: no number, and so no id, is ever given out twice, nothing that was
/// called is called again, and every message that is known ends once.
#[tokio::test(start_paused = true)]
async fn no_id_is_given_out_twice_whatever_row_is_damaged() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    let rows = world.raw(&key).await;
    drop(node);
    for damage in [
        Damage::Flipped,
        Damage::Torn,
        Damage::Gone,
        Damage::Unreadable,
    ] {
        for row in &rows {
            if damage == Damage::Gone && Some(row) == rows.last() {
                // Then the tail is another one: see the lost tail above.
                continue;
            }
            let world = World::new();
            world.append_raw(&key, &rows).await;
            world.log.damage(&key, row.first_seq, damage);
            let node = world.start().await;
            if node.sessions.load(&key).await.is_err() {
                node.sessions.repair(&key, id("r1")).await.unwrap();
            }
            check_goes_on(&world, &node, &key).await;
            let mut numbers = BTreeSet::new();
            for record in world.records_readable(&key).await {
                for seq in record.first_seq.0..=record.last_seq().0 {
                    assert!(numbers.insert(seq), "{damage:?} {row:?}: {seq} twice");
                }
            }
            assert_eq!(world.ledger.count("charge"), 0, "{damage:?} {row:?}");
            let session = node.sessions.load(&key).await.unwrap();
            for message in ["m1", "m2", "m3"] {
                if let Some(receipt) = session.receipts.get(&id(message)) {
                    assert!(matches!(receipt.verdict, Verdict::Accepted { .. }));
                    node.end_of(&key, message).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_removed_in_the_lost_part_stays_removed() {
    let world = World::new();
    let node = world.start().await;
    let key = three_messages(&world, &node).await;
    let bad = row_with(&world, &key, |event| settles(event, "m3")).await;
    let delete = command("d1", CommandBody::Delete);
    let rows = world.raw(&key).await;
    node.sessions.admit(&key, delete).await.unwrap();
    node.until_gone().await;
    let deletion = world.raw(&key).await;
    // As a copy that was made before the purge would hold it.
    let copy = World::new();
    let later = deletion
        .iter()
        .filter(|row| row.first_seq > rows.last().unwrap().first_seq);
    copy.append_raw(&key, &rows).await;
    copy.append_raw(&key, &later.cloned().collect::<Vec<_>>())
        .await;
    copy.log.damage(&key, bad, Damage::Flipped);
    let node = copy.start().await;
    let repaired = node.sessions.repair(&key, id("r1")).await.unwrap();
    assert!(repaired.session.profile().is_none());
}
