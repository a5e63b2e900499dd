//! Taking messages from durable consumers that all nodes share.
//!
//! One task for each consumer asks for messages, and only while somebody waits here: a node that
//! stopped asking takes nothing from the others. A message that nobody takes any more is given back
//! at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, AckKind};
use async_nats::{HeaderMap, Message, Request, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use steadfast_store::error::{ReadError, WriteError};
use tokio::sync::{Mutex, OnceCell, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::connect::Link;
use crate::fault::Fault;
use crate::request::{API, Shared};
use crate::task::Owned;

/// A question to a consumer stands so long. What a process that stands still had asked for comes
/// to nobody else before its silence: so this ends before others take it for dead and announce its
/// sessions.
const PULL_EXPIRES: Duration = Duration::from_millis(2_500);
/// The consumer says so often that it is there; a question is put anew after two were missed.
const PULL_HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a message waits for a caller before it is given back.
const HAND_OVER_PATIENCE: Duration = Duration::from_millis(100);
/// Waits between questions that were refused.
const REFUSED_DELAY_MIN: Duration = Duration::from_millis(50);
const REFUSED_DELAY_MAX: Duration = Duration::from_secs(2);

/// A durable consumer of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerName {
    pub(crate) stream: String,
    pub(crate) consumer: String,
}

/// One delivery of a message.
#[derive(Debug, Clone)]
pub(crate) struct Pulled {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
    pub(crate) sequence: u64,
    /// From 1.
    pub(crate) deliveries: u64,
    pub(crate) receipt: Receipt,
    arrived: Instant,
}

/// Where the delivery of a message is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt(String);

/// Messages of some consumers, for whoever waits.
#[derive(Debug)]
pub(crate) struct Puller {
    connection: Shared,
    consumers: Vec<ConsumerName>,
    at_once: usize,
    /// A message older than this went to somebody else.
    silence: Duration,
    waiting: watch::Sender<Callers>,
    /// Made when the first caller waits.
    running: OnceCell<Running>,
}

#[derive(Debug)]
struct Running {
    messages: Mutex<mpsc::Receiver<Pulled>>,
    _tasks: Vec<Owned>,
}

/// Callers that wait.
#[derive(Debug, Clone, Copy)]
struct Callers {
    waiting: usize,
    /// When their number last changed.
    changed: Instant,
}

impl Callers {
    fn none() -> Self {
        Self {
            waiting: 0,
            changed: Instant::now(),
        }
    }

    /// How long a message waits for one: a caller who works on its last message comes back soon.
    fn patience(self) -> Duration {
        match self.waiting {
            0 => HAND_OVER_PATIENCE.saturating_sub(self.changed.elapsed()),
            _ => HAND_OVER_PATIENCE,
        }
    }
}

/// Counts a caller that waits.
struct Waiting<'a>(&'a watch::Sender<Callers>);

impl<'a> Waiting<'a> {
    fn begin(count: &'a watch::Sender<Callers>) -> Self {
        count.send_modify(|callers| {
            callers.waiting += 1;
            callers.changed = Instant::now();
        });
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|callers| {
            callers.waiting = callers.waiting.saturating_sub(1);
            callers.changed = Instant::now();
        });
    }
}

impl Puller {
    /// Each question asks for `at_once` messages. With one, what is taken is worked on at once; but
    /// the broker gives what was given back before what is new, so where one message is always due
    /// again, only who asks for several sees another.
    pub(crate) fn new(
        connection: Shared,
        consumers: Vec<ConsumerName>,
        at_once: usize,
        silence: Duration,
    ) -> Self {
        Self {
            connection,
            consumers,
            at_once,
            silence,
            waiting: watch::Sender::new(Callers::none()),
            running: OnceCell::new(),
        }
    }

    /// Waits for a message. Dropped before it answers, it takes nothing that does not come again.
    pub(crate) async fn next(&self) -> Result<Pulled, ReadError> {
        let _waiting = Waiting::begin(&self.waiting);
        let running = self.running.get_or_init(|| async { self.start() }).await;
        let mut messages = running.messages.lock().await;
        loop {
            let closed = || ReadError::Unavailable("the store is closed".to_owned());
            let pulled = messages.recv().await.ok_or_else(closed)?;
            if pulled.arrived.elapsed() < self.silence {
                return Ok(pulled);
            }
        }
    }

    fn start(&self) -> Running {
        // One place: what waits here waits in vain if its caller just left.
        let (sender, messages) = mpsc::channel(1);
        let tasks = self.consumers.iter().map(|consumer| {
            let task = Task {
                connection: Arc::clone(&self.connection),
                consumer: consumer.clone(),
                at_once: self.at_once,
                waiting: self.waiting.subscribe(),
                sender: sender.clone(),
                abandoned: false,
            };
            Owned::spawn(task.run())
        });
        Running {
            _tasks: tasks.collect(),
            messages: Mutex::new(messages),
        }
    }
}

struct Task {
    connection: Shared,
    consumer: ConsumerName,
    at_once: usize,
    waiting: watch::Receiver<Callers>,
    sender: mpsc::Sender<Pulled>,
    /// Nobody waited for the last message.
    abandoned: bool,
}

/// How a question ended.
enum Answer {
    Message(Box<Pulled>),
    /// Ask again.
    Over,
    Refused(String),
    /// Nothing comes to this inbox any more.
    Closed,
}

/// Where a consumer's messages come.
struct Inbox {
    reply: String,
    answers: Subscriber,
    /// Messages that the question which stands may still give.
    outstanding: usize,
}

impl Task {
    async fn run(mut self) {
        let mut delay = REFUSED_DELAY_MIN;
        let mut inbox: Option<Inbox> = None;
        loop {
            // A question that stands is heard to its end: what is on its way when it is taken back
            // would come again only after its silence.
            let stands = inbox.as_ref().is_some_and(|inbox| inbox.outstanding > 0);
            if !stands && !self.is_wanted().await {
                return;
            }
            let refused = match self.pull(&mut inbox).await {
                Ok(Answer::Message(pulled)) => {
                    self.hand_over(*pulled).await;
                    None
                }
                Ok(Answer::Over | Answer::Closed) => None,
                Ok(Answer::Refused(reason)) => Some(reason),
                Err(fault) => Some(fault.to_string()),
            };
            match refused {
                None => delay = REFUSED_DELAY_MIN,
                Some(reason) => {
                    let ConsumerName { stream, consumer } = &self.consumer;
                    tracing::debug!(stream, consumer, reason, "the queue gives nothing now");
                    sleep(delay).await;
                    delay = (delay * 2).min(REFUSED_DELAY_MAX);
                }
            }
        }
    }

    /// Waits until a caller waits. `false`: none will.
    async fn is_wanted(&mut self) -> bool {
        let wanted = self.waiting.wait_for(|callers| callers.waiting > 0).await;
        wanted.is_ok()
    }

    /// The next message, of the question that stands or of a new one.
    async fn pull(&self, inbox: &mut Option<Inbox>) -> Result<Answer, Fault> {
        self.connection.ready().await?;
        let stands = match inbox {
            Some(stands) => stands,
            None => inbox.insert(self.subscribe().await?),
        };
        let mut link = self.connection.link();
        if stands.outstanding == 0 {
            self.ask(stands).await?;
        }
        let answer = self.answer(stands, &mut link).await;
        if let Ok(Answer::Message(_)) = &answer {
            stands.outstanding = stands.outstanding.saturating_sub(1);
        } else {
            // Whatever ended the question, no more comes of it but what is on its way.
            stands.outstanding = 0;
        }
        if matches!(&answer, Ok(Answer::Closed)) {
            *inbox = None;
            return Ok(Answer::Refused("the subscription ended".to_owned()));
        }
        answer
    }

    async fn subscribe(&self) -> Result<Inbox, Fault> {
        let reply = self.connection.client.new_inbox();
        let answers = self.connection.client.subscribe(reply.clone()).await;
        let answers = answers.map_err(|error| Fault::Unavailable(error.to_string()))?;
        Ok(Inbox {
            reply,
            answers,
            outstanding: 0,
        })
    }

    async fn ask(&self, inbox: &mut Inbox) -> Result<(), Fault> {
        let question = json!({
            "batch": self.at_once,
            "expires": nanoseconds(PULL_EXPIRES),
            "idle_heartbeat": nanoseconds(PULL_HEARTBEAT),
        });
        let ConsumerName { stream, consumer } = &self.consumer;
        let subject = format!("{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let asked = self.connection.client.publish_with_reply(
            subject,
            inbox.reply.clone(),
            question.to_string().into(),
        );
        let asked = asked.await;
        asked.map_err(|error| Fault::Unavailable(error.to_string()))?;
        inbox.outstanding = self.at_once;
        Ok(())
    }

    async fn answer(
        &self,
        inbox: &mut Inbox,
        link: &mut watch::Receiver<Link>,
    ) -> Result<Answer, Fault> {
        loop {
            let message = tokio::select! {
                message = timeout(PULL_HEARTBEAT * 2, inbox.answers.next()) => message,
                // The question may be lost with the connection it was put on.
                changed = link.changed() => {
                    changed.map_err(|error| Fault::Unavailable(error.to_string()))?;
                    return Ok(Answer::Over);
                }
            };
            let Ok(message) = message else {
                return Ok(Answer::Refused("nothing heard".to_owned()));
            };
            let Some(message) = message else {
                return Ok(Answer::Closed);
            };
            match message.status.map(|status| status.as_u16()) {
                None => return Ok(self.pulled(message).map_or(Answer::Over, Answer::Message)),
                Some(100) => {}
                Some(404 | 408) => return Ok(Answer::Over),
                Some(status) => {
                    let text = message.description.unwrap_or_default();
                    return Ok(Answer::Refused(format!("{text} ({status})")));
                }
            }
        }
    }

    fn pulled(&self, message: Message) -> Option<Box<Pulled>> {
        let receipt = Receipt(message.reply.as_ref()?.to_string());
        let message = jetstream::Message {
            message,
            context: self.connection.context.clone(),
        };
        let info = message.info().ok()?;
        let (sequence, delivered) = (info.stream_sequence, info.delivered);
        let (message, _) = message.split();
        Some(Box::new(Pulled {
            subject: message.subject.to_string(),
            headers: message.headers.unwrap_or_default(),
            payload: message.payload,
            sequence,
            deliveries: u64::try_from(delivered).unwrap_or(1).max(1),
            receipt,
            arrived: Instant::now(),
        }))
    }

    /// Gives the message to a caller, or back: at once if there was none for the one before either.
    async fn hand_over(&mut self, pulled: Pulled) {
        let patience = match self.abandoned {
            true => Duration::ZERO,
            false => self.waiting.borrow().patience(),
        };
        let sender = self.sender.clone();
        let wanted = async {
            let wanted = self.is_wanted().await;
            sender.reserve().await.ok().filter(|_| wanted)
        };
        match timeout(patience, wanted).await {
            Ok(Some(place)) => {
                place.send(pulled);
                self.abandoned = false;
            }
            Ok(None) | Err(_) => {
                self.back(&pulled).await;
                self.abandoned = true;
            }
        }
    }

    async fn back(&self, pulled: &Pulled) {
        let back = AckKind::Nak(None);
        // Lost, the message comes again after its silence.
        if let Err(error) = self.connection.tell(&pulled.receipt, back).await {
            tracing::debug!(%error, "a message was not given back");
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl crate::connect::Connection {
    /// Answers a delivery, without waiting for the broker.
    pub(crate) async fn tell(&self, receipt: &Receipt, kind: AckKind) -> Result<(), WriteError> {
        self.ready().await?;
        let told = self.client.publish(receipt.0.clone(), kind.into());
        timeout(self.request_timeout, told)
            .await
            .map_err(|_| WriteError::Unknown("the connection is congested".to_owned()))?
            .map_err(|error| WriteError::Unknown(error.to_string()))
    }

    /// Answers a delivery, and waits until the broker has taken it.
    pub(crate) async fn tell_surely(
        &self,
        receipt: &Receipt,
        kind: AckKind,
    ) -> Result<(), WriteError> {
        let request = Request::new().payload(kind.into());
        match self.ask(&receipt.0, request).await {
            Ok(_) => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }
}
