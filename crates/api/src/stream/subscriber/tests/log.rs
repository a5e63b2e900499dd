//! A log that streams are made from, and a reader of one.

use std::sync::{Mutex, Weak};

use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, SessionId, SessionKey, TenantId, Timestamp, TurnId};
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::record::{Cause, Entry, Record, RecordHash};
use steadfast_runtime::sessions::LoadError;
use tokio::sync::watch;

use crate::options::Limits;
use crate::stream::hub::Hubs;
use crate::stream::permit::Streams;
use crate::stream::subscriber::*;

/// A log in memory with what a real upstream does: Records after a cursor, then what comes.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) records: watch::Sender<Vec<Arc<Record>>>,
    pub(super) live: tokio::sync::broadcast::Sender<Arc<LiveFrame>>,
    pub(super) failed: watch::Sender<Option<LoadError>>,
    pub(super) hubs: Arc<Hubs>,
    pub(super) streams: Arc<Streams>,
    pub(super) shutdown: CancellationToken,
    pub(super) upstreams: Arc<Mutex<Vec<Weak<()>>>>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            records: watch::Sender::default(),
            live: tokio::sync::broadcast::channel(1024).0,
            failed: watch::Sender::default(),
            hubs: Arc::default(),
            streams: Arc::default(),
            shutdown: CancellationToken::new(),
            upstreams: Arc::default(),
        }
    }

    pub(super) fn seq(&self) -> Seq {
        let records = self.records.borrow();
        records
            .last()
            .map_or(Seq(0), |record: &Arc<Record>| record.last_seq())
    }

    pub(super) fn append(&self, events: Vec<Event>) {
        let first_seq = self.seq().next();
        let record = Record {
            first_seq,
            epoch: Epoch(1),
            prev: RecordHash::default(),
            entries: vec![Entry {
                cause: Cause::Timer,
                at: Timestamp(first_seq.0),
                events,
            }],
        };
        self.records
            .send_modify(|records| records.push(Arc::new(record)));
    }

    pub(super) fn append_large(&self) {
        self.append(vec![Event::CallRetryScheduled {
            call: "1-1-0".parse().unwrap(),
            attempt: 1,
            detail: "x".repeat(200_000),
            may_have_acted: false,
            retry_at: Timestamp(0),
        }]);
    }

    pub(super) fn append_some(&self, events: u64) {
        let turn = TurnId(Seq(1));
        self.append(vec![
            Event::HoldLifted { turn };
            usize::try_from(events).unwrap()
        ]);
    }

    pub(super) fn show(&self, n: u64, text: &str) {
        let frame = LiveFrame {
            epoch: Epoch(1),
            turn: TurnId(Seq(1)),
            step: 1,
            attempt: 1,
            n,
            delta: Delta::Text {
                part: 0,
                text: text.into(),
            },
        };
        self.live.send(Arc::new(frame)).unwrap();
    }

    pub(super) fn follow(&self, after: Seq, live: bool) -> Follower {
        let alive = Arc::new(());
        self.upstreams.lock().unwrap().push(Arc::downgrade(&alive));
        let live = live.then(|| self.live.subscribe());
        let state = (
            alive,
            self.records.subscribe(),
            self.failed.subscribe(),
            live,
            after,
        );
        let next = |mut state: (_, watch::Receiver<Vec<Arc<Record>>>, _, Option<_>, Seq)| async move {
            loop {
                let (_, records, failed, live, cursor) = &mut state;
                let failed: &mut watch::Receiver<Option<LoadError>> = failed;
                let found = records
                    .borrow_and_update()
                    .iter()
                    .find(|record| record.last_seq() > *cursor)
                    .cloned();
                if let Some(record) = found {
                    let from = record.first_seq.max(cursor.next());
                    *cursor = record.last_seq();
                    return Some((Ok(Followed::Record { from, record }), state));
                }
                let error = failed.borrow_and_update().clone();
                if let Some(error) = error {
                    return Some((Err(error), state));
                }
                let shown = async {
                    match live {
                        Some(live) => {
                            let live: &mut Receiver<Arc<LiveFrame>> = live;
                            live.recv().await.unwrap()
                        }
                        None => std::future::pending().await,
                    }
                };
                let frame = tokio::select! {
                    changed = records.changed() => { changed.unwrap(); continue }
                    changed = failed.changed() => { changed.unwrap(); continue }
                    frame = shown => frame,
                };
                return Some((Ok(Followed::Live(frame)), state));
            }
        };
        stream::unfold(state, next).boxed()
    }

    pub(super) fn subscribe(&self, cursor: u64, follow: bool) -> Client {
        let tenant = TenantId::new("t").unwrap();
        let key = SessionKey {
            tenant: tenant.clone(),
            session: SessionId::new("s").unwrap(),
        };
        let log = self.clone();
        let source = if follow {
            Source::Hub(
                self.hubs
                    .of(&key, self.seq(), |after| self.follow(after, true)),
            )
        } else {
            Source::Until(self.seq())
        };
        let frames = frames(Subscription {
            cursor: Seq(cursor),
            source,
            open_log: Box::new(move |after| log.follow(after, false)),
            comment: Duration::from_secs(3600),
            shutdown: self.shutdown.clone(),
            permit: self.streams.open(&Limits::default(), &tenant).unwrap(),
        });
        Client {
            frames: frames.boxed(),
            cursor,
        }
    }

    pub(super) fn open_upstreams(&self) -> usize {
        let upstreams = self.upstreams.lock().unwrap();
        upstreams
            .iter()
            .filter(|upstream| upstream.strong_count() > 0)
            .count()
    }
}

/// One reader of a stream.
pub(super) struct Client {
    pub(super) frames: futures_util::stream::BoxStream<'static, Bytes>,
    pub(super) cursor: u64,
}

impl Client {
    /// The next frames that came together, one line each; checks that no event is left out or
    /// repeated.
    pub(super) async fn next(&mut self) -> Option<Vec<String>> {
        let bytes = self.frames.next().await?;
        let text = std::str::from_utf8(&bytes).unwrap();
        let frames = text.split_terminator("\n\n").map(|frame| {
            if let Some(rest) = frame.strip_prefix("id: ") {
                let id: u64 = rest.split('\n').next().unwrap().parse().unwrap();
                assert_eq!(id, self.cursor + 1, "an event was left out or repeated");
                self.cursor = id;
                return format!("event {id}");
            }
            frame.replace('\n', " ")
        });
        Some(frames.collect())
    }

    pub(super) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut frames = Vec::new();
        while frames.len() < count {
            frames.extend(self.next().await.unwrap());
        }
        frames
    }

    pub(super) async fn until(&mut self, seq: u64) {
        while self.cursor < seq {
            self.next().await.unwrap();
        }
    }

    pub(super) async fn rest(mut self) -> Vec<String> {
        let mut frames = Vec::new();
        while let Some(more) = self.next().await {
            frames.extend(more);
        }
        frames
    }
}
