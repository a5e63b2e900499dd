//! Each fault does what it says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, NodeId, Seq, Timestamp};
use steadfast_core::input::Policy;
use steadfast_protocol::chain::{self, Link};
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::fault::{Fault, Odds, Operation, RIVAL};
use steadfast_store::log::{Append, AppendError, ReadFrom, Tail};
use steadfast_store::mailbox::{Lane, MailSeq, SendError};

use crate::samples::{START, append, layer, pause, session, stores, texts};

fn no_answer() -> AppendError {
    AppendError::Write(WriteError::Unknown("no answer".into()))
}

fn no_connection() -> WriteError {
    WriteError::Unavailable("no connection".into())
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_leaves_the_record_and_its_repetition_is_one() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.inject(Operation::Append, Fault::LostAck);
    let first = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    assert_eq!(first, Err(no_answer()));
    assert_eq!(texts(&inner, &key).await, ["1 a"]);
    let tail = log.tail(&key).await.unwrap().tail;
    let again = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    assert_eq!(again, Ok(tail));
    assert_eq!(texts(&inner, &key).await, ["1 a"]);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_may_conflict_with_its_own_record() {
    let inner = stores();
    let odds = Odds {
        own_conflict_permille: 1_000,
        ..Odds::NONE
    };
    let (layer, plan) = layer(&inner, 1, odds);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.inject(Operation::Append, Fault::LostAck);
    let lost = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    let again = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    let outcomes = [lost, again];
    assert_eq!(outcomes, [Err(no_answer()), Err(AppendError::Conflict)]);
    let told = log.tail(&key).await.unwrap();
    assert_eq!(told.last.unwrap().hash, append(1, "a").hash);
    let next = log.append(&key, told.tail, append(2, "b")).await;
    assert!(next.is_ok(), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_leaves_nothing() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.inject(Operation::Append, Fault::LostRequest);
    let lost = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    assert_eq!(lost, Err(no_answer()));
    layer.settle().await;
    assert_eq!(texts(&inner, &key).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_ghost_lands_after_a_read_that_does_not_show_it() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    let delay = Duration::from_secs(5);
    plan.inject(Operation::Append, Fault::Ghost { delay });
    let ghost = log.append(&key, Tail::EMPTY, append(1, "ghost")).await;
    assert_eq!(ghost, Err(no_answer()));
    pause(4_900).await;
    assert_eq!(log.tail(&key).await.unwrap().tail, Tail::EMPTY);
    pause(200).await;
    assert_eq!(texts(&inner, &key).await, ["1 ghost"]);
}

#[tokio::test(start_paused = true)]
async fn a_ghost_is_fenced() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    let delay = Duration::from_secs(5);
    plan.inject(Operation::Append, Fault::Ghost { delay });
    let ghost = log.append(&key, Tail::EMPTY, append(1, "ghost")).await;
    assert_eq!(ghost, Err(no_answer()));
    let owner = inner
        .log
        .append(&key, Tail::EMPTY, append(1, "owner"))
        .await;
    assert!(owner.is_ok(), "{owner:?}");
    layer.settle().await;
    assert_eq!(texts(&inner, &key).await, ["1 owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_may_conflict_with_its_own_ghost_while_the_tail_has_not_moved() {
    let inner = stores();
    let odds = Odds {
        own_conflict_permille: 1_000,
        ..Odds::NONE
    };
    let (layer, plan) = layer(&inner, 1, odds);
    let (log, key) = (&layer.stores().log, session("a"));
    let delay = Duration::from_secs(5);
    plan.inject(Operation::Append, Fault::Ghost { delay });
    let ghost = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    let again = log.append(&key, Tail::EMPTY, append(1, "a")).await;
    let outcomes = [ghost, again];
    assert_eq!(outcomes, [Err(no_answer()), Err(AppendError::Conflict)]);
    assert_eq!(log.tail(&key).await.unwrap().tail, Tail::EMPTY);
    layer.settle().await;
    assert_eq!(texts(&inner, &key).await, ["1 a"]);
}

#[tokio::test(start_paused = true)]
async fn an_append_goes_on_when_its_caller_is_dropped() {
    let inner = stores();
    let odds = Odds {
        latency_max: Duration::from_secs(1),
        ..Odds::NONE
    };
    let (layer, plan) = layer(&inner, 3, odds);
    let key = session("a");
    plan.spare(Operation::Append);
    let call = layer.stores().log.append(&key, Tail::EMPTY, append(1, "a"));
    let cut_short = tokio::time::timeout(Duration::from_millis(1), call).await;
    assert!(cut_short.is_err());
    assert_eq!(texts(&inner, &key).await, [""; 0]);
    layer.settle().await;
    assert_eq!(texts(&inner, &key).await, ["1 a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_misses_the_newest_and_the_tail_does_not() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    let mut tail = Tail::EMPTY;
    for seq in 1..=4 {
        tail = log.append(&key, tail, append(seq, "x")).await.unwrap();
    }
    for (records, expected) in [(1, 3), (3, 1), (9, 0), (0, 4)] {
        plan.inject(Operation::Read, Fault::Stale { records });
        assert_eq!(texts(layer.stores(), &key).await.len(), expected);
        assert_eq!(log.tail(&key).await.unwrap().tail, tail);
    }
    plan.inject(Operation::Read, Fault::Stale { records: 1 });
    let old = log.read(&key, ReadFrom::Seq(Seq(1)), 2).await.unwrap();
    assert_eq!(old.len(), 2, "older Records are not missed");
}

#[tokio::test(start_paused = true)]
async fn a_rival_takes_the_session_over_and_can_be_found() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    let own = NodeId::new("own").unwrap();
    let activated = |node: &NodeId, epoch, at, prev, first_seq| Record {
        first_seq: Seq(first_seq),
        epoch: Epoch(epoch),
        prev,
        entries: vec![Entry {
            cause: Cause::Activate,
            at,
            events: vec![Event::Activated {
                node: node.clone(),
                epoch: Epoch(epoch),
                policy: Policy::default(),
            }],
        }],
    };
    let first = activated(&own, 7, Timestamp(99), RecordHash::NONE, 1);
    let bytes = Bytes::from(record::encode(&first).unwrap());
    let hash = RecordHash::of(&bytes);
    let owned = Append {
        epoch: Epoch(7),
        bytes: bytes.clone(),
        hash,
        ..append(1, "")
    };
    let tail = log.append(&key, Tail::EMPTY, owned).await.unwrap();

    plan.inject(Operation::Append, Fault::Conflict);
    let outcome = log.append(&key, tail, append(2, "x")).await;
    assert_eq!(outcome, Err(AppendError::Conflict));

    let rival = NodeId::new(RIVAL).unwrap();
    let records = inner.log.read(&key, ReadFrom::Seq(Seq(2)), 10).await;
    let records = records.unwrap();
    let (_, link) = chain::verify(&Link::START, &bytes, Seq(1)).unwrap();
    let (second, link) = chain::verify(&link, &records[0].bytes, Seq(2)).unwrap();
    assert_eq!(second, activated(&rival, 8, Timestamp(99), hash, 2));
    let last = log.tail(&key).await.unwrap().last.unwrap();
    assert_eq!((last.node, last.hash), (rival.clone(), link.record));
    assert_eq!(inner.active.nodes().await.unwrap(), [rival]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_fails_calls_and_keeps_half_of_the_writes_for_later() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let stores = layer.stores();
    let key = session("a");
    plan.cut_for(Duration::from_secs(7));
    assert_eq!(
        stores.log.tail(&key).await,
        Err(ReadError::Unavailable("no connection".into()))
    );
    let mut outcomes = BTreeMap::new();
    for n in 0..40 {
        let bytes = Bytes::from(n.to_string());
        let sent = stores.mailbox.send(&key, Lane::Control, "n", bytes).await;
        let error = sent.expect_err("the connection is cut");
        *outcomes.entry(error.to_string()).or_insert(0) += 1;
    }
    let refused = SendError::Write(no_connection()).to_string();
    let refused = outcomes[&refused];
    assert!((10..=30).contains(&refused), "{outcomes:?}");
    let landed = inner.mailbox.pending(&key, MailSeq(0), 100).await.unwrap();
    assert_eq!(landed.len(), 0);
    layer.settle().await;
    let landed = inner.mailbox.pending(&key, MailSeq(0), 100).await.unwrap();
    assert_eq!(landed.len(), 40 - refused);
    assert!(stores.log.tail(&key).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_cut_ends_who_waits_for_mail() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (next, ()) = tokio::join!(layer.stores().mailbox.next(), async {
        pause(10).await;
        plan.cut();
    });
    assert_eq!(next, Err(ReadError::Unavailable("connection lost".into())));
    plan.open();
    let key = session("a");
    let sent = layer
        .stores()
        .mailbox
        .send(&key, Lane::Messages, "n", Bytes::new());
    sent.await.unwrap();
    assert_eq!(layer.stores().mailbox.next().await.unwrap().session, key);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_connection_holds_calls_until_it_is_opened() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.block();
    let mut call = log.append(&key, Tail::EMPTY, append(1, "a"));
    assert_eq!(call.as_mut().now_or_never(), None);
    pause(60_000).await;
    assert_eq!(call.as_mut().now_or_never(), None);
    assert_eq!(texts(&inner, &key).await, [""; 0]);
    plan.open();
    assert!(call.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_writes_and_reads_go_on() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (stores, key) = (layer.stores(), session("a"));
    let full = WriteError::Full("the disk is full".into());
    plan.set_disk_full(true);
    let appended = stores.log.append(&key, Tail::EMPTY, append(1, "a")).await;
    assert_eq!(appended, Err(AppendError::Write(full.clone())));
    let put = stores.blobs.put(&key, Bytes::from_static(b"blob")).await;
    assert_eq!(put, Err(full));
    assert_eq!(stores.log.tail(&key).await.unwrap().tail, Tail::EMPTY);
    plan.set_disk_full(false);
    let appended = stores.log.append(&key, Tail::EMPTY, append(1, "a")).await;
    assert!(appended.is_ok(), "{appended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_and_a_timer_come_once_more() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (stores, key) = (layer.stores(), session("a"));
    plan.inject(Operation::NextDelivery, Fault::Repeat);
    plan.inject(Operation::NextTimer, Fault::Repeat);
    let sent = stores.mailbox.send(&key, Lane::Messages, "n", Bytes::new());
    sent.await.unwrap();
    stores.timers.set(&key, Epoch(1), START).await.unwrap();
    let deliveries = [
        stores.mailbox.next().await.unwrap(),
        stores.mailbox.next().await.unwrap(),
    ];
    assert_eq!(deliveries[0], deliveries[1]);
    assert_eq!(stores.mailbox.next().now_or_never(), None);
    let timers = [
        stores.timers.next().await.unwrap(),
        stores.timers.next().await.unwrap(),
    ];
    assert_eq!(timers[0], timers[1]);
    assert_eq!(stores.timers.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_acknowledgement_leaves_the_letter() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (mailbox, key) = (&layer.stores().mailbox, session("a"));
    let sent = mailbox.send(&key, Lane::Messages, "n", Bytes::new()).await;
    plan.inject(Operation::AcknowledgeLetters, Fault::Forgotten);
    for left in [1, 0] {
        let up_to = *sent.as_ref().unwrap();
        assert_eq!(mailbox.acknowledge(&key, up_to).await, Ok(()));
        let letters = mailbox.pending(&key, MailSeq(0), 9).await.unwrap();
        assert_eq!(letters.len(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_corrupt_is_told_or_does_not_decode() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (stores, key) = (layer.stores(), session("a"));
    let appended = stores.log.append(&key, Tail::EMPTY, append(1, "a"));
    appended.await.unwrap();
    let blob = stores.blobs.put(&key, Bytes::from_static(b"blob")).await;
    plan.inject(Operation::Read, Fault::Corrupt);
    plan.inject(Operation::GetBlob, Fault::Corrupt);
    assert_eq!(texts(stores, &key).await, ["1!a"]);
    let got = stores.blobs.get(&key, blob.unwrap().hash).await;
    assert!(matches!(got, Err(ReadError::Corrupt(_))), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_signal_comes_never_but_the_first_does() {
    let inner = stores();
    let (layer, plan) = layer(&inner, 1, Odds::NONE);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.inject(Operation::Follow, Fault::Lost);
    let mut deaf = log.follow(&key).await.unwrap();
    let mut hears = log.follow(&key).await.unwrap();
    assert_eq!(deaf.next().now_or_never(), Some(Some(())));
    assert_eq!(hears.next().now_or_never(), Some(Some(())));
    let appended = log.append(&key, Tail::EMPTY, append(1, "a"));
    appended.await.unwrap();
    assert_eq!(deaf.next().now_or_never(), None);
    assert_eq!(hears.next().now_or_never(), Some(Some(())));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_plan_does_no_harm() {
    let inner = stores();
    let everything = Odds {
        unavailable_permille: 1_000,
        cut_permille: 1_000,
        cut_max: Duration::from_secs(1_000),
        latency_max: Duration::from_secs(9),
        ..Odds::NONE
    };
    let (layer, plan) = layer(&inner, 1, everything);
    let (log, key) = (&layer.stores().log, session("a"));
    plan.set_disk_full(true);
    plan.inject(Operation::Append, Fault::LostRequest);
    assert!(log.tail(&key).await.is_err());
    plan.stop();
    let outcome = log.append(&key, Tail::EMPTY, append(1, "a")).now_or_never();
    assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
}
