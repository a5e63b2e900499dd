//! One follower of a session: the body of its response.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use steadfast_core::id::Seq;
use steadfast_runtime::sessions::{Followed, Follower};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Committed};
use super::hub::{Hub, JoinError, News};
use super::permit::StreamPermit;
use crate::error::{ErrorCode, Problem};

/// Frames taken from the broadcast at once.
const BATCH_MAX: usize = 64;

/// Opens an upstream that reads the log after a cursor.
pub(crate) type OpenLog = Box<dyn Fn(Seq) -> Follower + Send + Sync>;

/// Where a follower gets its news.
pub(crate) enum Source {
    /// For ever, from a hub.
    Hub(Arc<Hub>),
    /// Only what is committed up to this event.
    Until(Seq),
}

/// What a follower needs.
pub(crate) struct Subscription {
    pub(crate) cursor: Seq,
    pub(crate) source: Source,
    pub(crate) open_log: OpenLog,
    pub(crate) comment: Duration,
    pub(crate) shutdown: CancellationToken,
    pub(crate) permit: StreamPermit,
}

/// The frames of a subscription, until it ends.
pub(crate) fn frames(subscription: Subscription) -> impl Stream<Item = Bytes> + Send + 'static {
    let mut comments = tokio::time::interval(subscription.comment);
    comments.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    comments.reset();
    let phase = match &subscription.source {
        Source::Hub(_) => Phase::Joining,
        Source::Until(seq) => Phase::Reading(Reading {
            upstream: (subscription.open_log)(subscription.cursor),
            until: *seq,
        }),
    };
    let subscriber = Subscriber {
        cursor: subscription.cursor,
        ready: VecDeque::from([frame::OPENING]),
        phase,
        source: subscription.source,
        open_log: subscription.open_log,
        comments,
        shutdown: subscription.shutdown,
        _permit: subscription.permit,
    };
    stream::unfold(subscriber, |mut subscriber| async move {
        let frame = subscriber.next().await?;
        Some((frame, subscriber))
    })
}

struct Subscriber {
    /// Number of the last event that is sent or ready.
    cursor: Seq,
    ready: VecDeque<Bytes>,
    phase: Phase,
    source: Source,
    open_log: OpenLog,
    comments: Interval,
    shutdown: CancellationToken,
    _permit: StreamPermit,
}

enum Phase {
    /// The next thing is to join the hub at the cursor.
    Joining,
    /// The log is read up to an event.
    Reading(Reading),
    /// The broadcast is listened to.
    Listening(Receiver<News>),
    /// What is ready is the rest.
    Ended,
}

struct Reading {
    upstream: Follower,
    until: Seq,
}

enum Happened {
    Log(Option<Result<Followed, Problem>>),
    News(Result<News, RecvError>),
    Quiet,
    Shutdown,
}

impl Subscriber {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let happened = match &mut self.phase {
                Phase::Ended => return None,
                Phase::Joining => {
                    self.join();
                    continue;
                }
                Phase::Reading(reading) if self.cursor >= reading.until => {
                    self.read_all();
                    continue;
                }
                Phase::Reading(reading) => tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => Happened::Shutdown,
                    next = reading.upstream.next() => {
                        Happened::Log(next.map(|next| next.map_err(Problem::from)))
                    }
                    _ = self.comments.tick() => Happened::Quiet,
                },
                Phase::Listening(news) => tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => Happened::Shutdown,
                    next = news.recv() => Happened::News(next),
                    _ = self.comments.tick() => Happened::Quiet,
                },
            };
            self.take(happened);
        }
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Shutdown => self.phase = Phase::Ended,
            Happened::Quiet => self.ready.push_back(frame::COMMENT),
            Happened::Log(next) => self.take_log(next),
            Happened::News(next) => self.take_news(next),
        }
    }

    fn join(&mut self) {
        let Source::Hub(hub) = &self.source else {
            self.phase = Phase::Ended;
            return;
        };
        match hub.join(self.cursor) {
            Ok(joined) => {
                for committed in &joined.recent {
                    self.send(committed);
                }
                self.ready.push_back(frame::caught_up(self.cursor));
                self.ready.extend(joined.backlog);
                self.phase = Phase::Listening(joined.news);
            }
            Err(JoinError::Behind(until)) => {
                let upstream = (self.open_log)(self.cursor);
                self.phase = Phase::Reading(Reading { upstream, until });
            }
            Err(JoinError::Ended(reason)) => self.end(reason.as_ref()),
        }
    }

    fn read_all(&mut self) {
        match self.source {
            Source::Hub(_) => self.phase = Phase::Joining,
            Source::Until(_) => {
                self.ready.push_back(frame::caught_up(self.cursor));
                self.phase = Phase::Ended;
            }
        }
    }

    fn take_log(&mut self, next: Option<Result<Followed, Problem>>) {
        match next {
            // Events that a removed session once had are gone: the log may begin after the cursor.
            Some(Ok(Followed::Record { record, .. })) => match Committed::of(&record) {
                Ok(committed) => self.send(&committed),
                Err(error) => {
                    tracing::error!(%error, "event could not be encoded");
                    let detail = "an event could not be encoded";
                    self.end(Some(&Problem::new(ErrorCode::Internal, detail)));
                }
            },
            Some(Ok(Followed::Live(_) | Followed::CaughtUp { .. })) => {}
            Some(Err(problem)) => self.end(Some(&problem)),
            None => self.end(None),
        }
    }

    fn take_news(&mut self, first: Result<News, RecvError>) {
        let mut news = match first {
            Ok(news) => news,
            // Who is too slow for the broadcast starts again from the log.
            Err(RecvError::Lagged(_)) => return self.rejoin(),
            Err(RecvError::Closed) => return self.end(None),
        };
        for taken in 1.. {
            self.take_one(news);
            let Phase::Listening(receiver) = &mut self.phase else {
                return;
            };
            if taken == BATCH_MAX {
                return;
            }
            news = match receiver.try_recv() {
                Ok(news) => news,
                Err(TryRecvError::Lagged(_)) => return self.rejoin(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
        }
    }

    fn take_one(&mut self, news: News) {
        match news {
            News::Committed(committed) if committed.first_seq > self.cursor.next() => {
                self.rejoin();
            }
            News::Committed(committed) => self.take_committed(&committed),
            News::Large => self.take_recent(),
            News::Live(frame) => self.ready.push_back(frame),
            News::End(reason) => self.end(reason.as_ref()),
        }
    }

    fn take_committed(&mut self, committed: &Committed) {
        self.send(committed);
        if committed.ends_session {
            self.end(None);
        }
    }

    fn take_recent(&mut self) {
        let recent = match &self.source {
            Source::Hub(hub) => hub.recent_after(self.cursor),
            Source::Until(_) => None,
        };
        let Some(recent) = recent else {
            return self.rejoin();
        };
        for committed in recent {
            if matches!(self.phase, Phase::Ended) {
                return;
            }
            self.take_committed(&committed);
        }
    }

    fn rejoin(&mut self) {
        self.phase = Phase::Joining;
    }

    fn send(&mut self, committed: &Committed) {
        if let Some(bytes) = committed.after(self.cursor) {
            self.ready.push_back(bytes);
        }
        self.cursor = self.cursor.max(committed.last_seq);
    }

    fn end(&mut self, reason: Option<&Problem>) {
        if let Some(problem) = reason {
            self.ready.push_back(frame::error(problem));
        }
        self.phase = Phase::Ended;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, Weak};

    use proptest::prelude::*;
    use steadfast_core::event::Event;
    use steadfast_core::id::{Epoch, SessionId, SessionKey, TenantId, Timestamp, TurnId};
    use steadfast_protocol::live::{Delta, LiveFrame};
    use steadfast_protocol::record::{Cause, Entry, Record, RecordHash};
    use steadfast_runtime::sessions::LoadError;
    use tokio::sync::watch;

    use super::super::hub::Hubs;
    use super::super::permit::Streams;
    use super::*;
    use crate::options::Limits;

    /// A log in memory with what a real upstream does: Records after a cursor, then what comes.
    #[derive(Clone)]
    struct Log {
        records: watch::Sender<Vec<Arc<Record>>>,
        live: tokio::sync::broadcast::Sender<Arc<LiveFrame>>,
        failed: watch::Sender<Option<LoadError>>,
        hubs: Arc<Hubs>,
        streams: Arc<Streams>,
        shutdown: CancellationToken,
        upstreams: Arc<Mutex<Vec<Weak<()>>>>,
    }

    impl Log {
        fn new() -> Self {
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

        fn seq(&self) -> Seq {
            let records = self.records.borrow();
            records
                .last()
                .map_or(Seq(0), |record: &Arc<Record>| record.last_seq())
        }

        fn append(&self, events: Vec<Event>) {
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

        fn append_large(&self) {
            self.append(vec![Event::CallRetryScheduled {
                call: "1-1-0".parse().unwrap(),
                attempt: 1,
                detail: "x".repeat(200_000),
                may_have_acted: false,
                retry_at: Timestamp(0),
            }]);
        }

        fn append_some(&self, events: u64) {
            let turn = TurnId(Seq(1));
            self.append(vec![
                Event::HoldLifted { turn };
                usize::try_from(events).unwrap()
            ]);
        }

        fn show(&self, n: u64, text: &str) {
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

        fn follow(&self, after: Seq, live: bool) -> Follower {
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

        fn subscribe(&self, cursor: u64, follow: bool) -> Client {
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

        fn open_upstreams(&self) -> usize {
            let upstreams = self.upstreams.lock().unwrap();
            upstreams
                .iter()
                .filter(|upstream| upstream.strong_count() > 0)
                .count()
        }
    }

    struct Client {
        frames: futures_util::stream::BoxStream<'static, Bytes>,
        cursor: u64,
    }

    impl Client {
        /// The next frames that came together, one line each; checks that no event is left out or
        /// repeated.
        async fn next(&mut self) -> Option<Vec<String>> {
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

        async fn take(&mut self, count: usize) -> Vec<String> {
            let mut frames = Vec::new();
            while frames.len() < count {
                frames.extend(self.next().await.unwrap());
            }
            frames
        }

        async fn until(&mut self, seq: u64) {
            while self.cursor < seq {
                self.next().await.unwrap();
            }
        }

        async fn rest(mut self) -> Vec<String> {
            let mut frames = Vec::new();
            while let Some(more) = self.next().await {
                frames.extend(more);
            }
            frames
        }
    }

    #[tokio::test]
    async fn a_follower_gets_the_log_then_what_comes() {
        let log = Log::new();
        log.append_some(2);
        log.append_some(1);
        let mut client = log.subscribe(1, true);
        assert_eq!(
            client.take(4).await,
            [
                "retry: 1000",
                "event 2",
                "event 3",
                r#"event: caught_up data: {"seq":3}"#
            ]
        );
        log.append_some(2);
        assert_eq!(client.take(2).await, ["event 4", "event 5"]);
        log.show(0, "hel");
        log.show(1, "lo");
        let delta = |n: u64, text: &str| {
            format!(
                r#"event: delta data: {{"epoch":1,"turn":1,"step":1,"attempt":1,"n":{n},"delta":{{"type":"text","part":0,"text":"{text}"}}}}"#
            )
        };
        assert_eq!(client.take(2).await, [delta(0, "hel"), delta(1, "lo")]);
        let mut late = log.subscribe(5, true);
        let whole = delta(1, "hello").replace(r#""n":1"#, r#""first_n":0,"n":1"#);
        let caught_up = r#"event: caught_up data: {"seq":5}"#.to_owned();
        assert_eq!(
            late.take(3).await,
            ["retry: 1000".to_owned(), caught_up, whole]
        );
    }

    #[tokio::test]
    async fn without_following_the_stream_ends_at_the_tail() {
        let log = Log::new();
        log.append_some(3);
        let client = log.subscribe(1, false);
        log.append_some(1);
        let expected = [
            "retry: 1000",
            "event 2",
            "event 3",
            r#"event: caught_up data: {"seq":3}"#,
        ];
        assert_eq!(client.rest().await, expected);
    }

    #[tokio::test]
    async fn a_slow_follower_is_left_behind_and_misses_nothing() {
        let log = Log::new();
        let mut slow = log.subscribe(0, true);
        let mut quick = log.subscribe(0, true);
        slow.take(2).await;
        for _ in 0..1_000 {
            log.append_some(2);
            quick.until(log.seq().0).await;
        }
        let frames = slow.take(2_001).await;
        let caught_up = frames
            .iter()
            .filter(|frame| frame.starts_with("event: caught_up"));
        assert_eq!((slow.cursor, caught_up.count()), (2_000, 1));
    }

    #[tokio::test]
    async fn large_records_are_given_and_not_kept_in_flight() {
        let log = Log::new();
        let mut slow = log.subscribe(0, true);
        let mut quick = log.subscribe(0, true);
        slow.take(2).await;
        quick.take(2).await;
        for _ in 0..3 {
            log.append_large();
        }
        assert_eq!(quick.take(3).await, ["event 1", "event 2", "event 3"]);
        for _ in 0..20 {
            log.append_large();
            log.append_some(1);
            quick.until(log.seq().0).await;
        }
        slow.until(43).await;
        log.append(vec![Event::DeletionStarted]);
        log.append_large();
        assert_eq!(slow.rest().await.last().unwrap(), "event 44");
        assert_eq!(quick.rest().await, ["event 44"]);
    }

    #[tokio::test]
    async fn followers_share_one_upstream_and_the_same_bytes() {
        let log = Log::new();
        let mut clients: Vec<Client> = (0..100).map(|_| log.subscribe(0, true)).collect();
        for client in &mut clients {
            client.take(2).await;
        }
        log.append_some(1);
        let mut places = Vec::new();
        for client in &mut clients {
            places.push(client.frames.next().await.unwrap().as_ptr());
        }
        places.dedup();
        assert_eq!((places.len(), log.open_upstreams()), (1, 1));
        assert_eq!((log.hubs.count(), log.streams.count()), (1, 100));
        clients.clear();
        while log.open_upstreams() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!((log.hubs.count(), log.streams.count()), (0, 0));
    }

    #[tokio::test]
    async fn an_upstream_that_fails_ends_its_streams_with_an_error() {
        let log = Log::new();
        let client = log.subscribe(0, true);
        let error = LoadError::Quarantined("record 7".into());
        log.failed.send_replace(Some(error));
        let frames = client.rest().await;
        let last = frames.last().unwrap();
        assert!(last.starts_with("event: error data: {"), "{last}");
        assert!(last.contains(r#""code":"session_quarantined""#), "{last}");
        log.failed.send_replace(None);
        let mut again = log.subscribe(0, true);
        log.append_some(1);
        again.until(1).await;
    }

    #[tokio::test]
    async fn a_shutdown_ends_all_streams() {
        let log = Log::new();
        let client = log.subscribe(0, true);
        log.shutdown.cancel();
        let expected = ["retry: 1000", r#"event: caught_up data: {"seq":0}"#];
        assert_eq!(client.rest().await, expected);
    }

    #[tokio::test]
    async fn a_removal_is_the_last_event_of_a_stream() {
        let log = Log::new();
        log.append(vec![Event::SessionDeleted]);
        let mut client = log.subscribe(0, true);
        // One that was before the session was made again ends nothing.
        client.take(3).await;
        log.append(vec![Event::DeletionStarted]);
        log.append_some(1);
        assert_eq!(client.rest().await, ["event 2"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn every_follower_gets_every_event_once(
            steps in prop::collection::vec((0_u8..5, 1_u64..6, 0_usize..4), 1..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(async {
                let log = Log::new();
                log.append_some(3);
                let mut clients: Vec<Client> = Vec::new();
                for (step, number, which) in steps {
                    match step {
                        0 => log.append_some(number),
                        1 => clients.push(log.subscribe(number.min(log.seq().0), true)),
                        2 if which < clients.len() => {
                            let seq = log.seq().0;
                            clients[which].until(seq).await;
                        }
                        4 => log.append_large(),
                        3 if which < clients.len() => drop(clients.swap_remove(which)),
                        // So many that who does not read is left behind.
                        _ => for _ in 0..100 {
                            log.append_some(1);
                            tokio::task::yield_now().await;
                        },
                    }
                }
                let seq = log.seq().0;
                for client in &mut clients {
                    client.until(seq).await;
                }
            });
        }
    }
}
