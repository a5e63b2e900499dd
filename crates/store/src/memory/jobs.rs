//! The tool queue in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::{CallId, SessionKey};
use steadfast_protocol::tool::Addresses;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::error::{ReadError, WriteError};
use crate::jobs::{JOB_BYTES_MAX, JOB_DELAY_MAX, JOB_NEWS_MAX, Job, JobDelivery, JobName, Jobs};
use crate::local::lock;

/// Jobs that stand in the queue, at most.
const JOBS_MAX: usize = 100_000;

/// The tool queue of one process.
#[derive(Debug)]
pub struct MemoryJobs {
    queue: Arc<Queue>,
    cancels: News<(SessionKey, CallId)>,
    progress: News<(SessionKey, Bytes)>,
}

#[derive(Debug)]
struct Queue {
    silence: Duration,
    dedupe: Duration,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<u64, Entry>,
    /// Jobs in the order in which they are due.
    by_due: BTreeMap<Place, u64>,
    /// What was put, and until when the same is swallowed.
    recent: BTreeMap<JobName, Instant>,
    forget_at: usize,
    /// Numbers jobs, and ranks those that are due at the same instant.
    count: u64,
}

/// When a job is due, and its rank among those of the same instant.
type Place = (Instant, u64);

#[derive(Debug)]
struct Entry {
    job: Job,
    deliveries: u64,
    place: Place,
}

impl MemoryJobs {
    /// An empty queue; a delivery that meets silence comes again after `silence`, and the same job
    /// put twice within `dedupe` stands once.
    pub fn new(silence: Duration, dedupe: Duration) -> Self {
        Self {
            queue: Arc::new(Queue {
                silence,
                dedupe,
                state: Mutex::default(),
                changed: Notify::new(),
            }),
            cancels: News::default(),
            progress: News::default(),
        }
    }
}

enum Wait {
    Over(Delivered),
    Until(Instant),
    ForChange,
}

impl State {
    fn put(&mut self, job: Job, now: Instant, dedupe: Duration) -> Result<(), WriteError> {
        if self.recent.get(&job.name).is_some_and(|until| *until > now) {
            return Ok(());
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(WriteError::Unavailable("the tool queue is full".into()));
        }
        if self.recent.len() >= self.forget_at.max(JOBS_MAX) {
            self.recent.retain(|_, until| *until > now);
            self.forget_at = self.recent.len().saturating_mul(2);
        }
        self.recent.insert(job.name.clone(), now + dedupe);
        let (number, place) = (self.number(), (now, self.number()));
        let entry = Entry {
            job,
            deliveries: 0,
            place,
        };
        self.by_due.insert(place, number);
        self.jobs.insert(number, entry);
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn move_to(&mut self, number: u64, due: Instant) {
        let place = (due, self.number());
        if let Some(entry) = self.jobs.get_mut(&number) {
            self.by_due.remove(&entry.place);
            entry.place = place;
            self.by_due.insert(place, number);
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(entry) = self.jobs.remove(&number) {
            self.by_due.remove(&entry.place);
        }
    }

    /// The first due job of one of these tools.
    fn take(&mut self, tools: &[String], queue: &Arc<Queue>, now: Instant) -> Wait {
        let is_of = |number: &u64| {
            let entry = self.jobs.get(number);
            entry.is_some_and(|entry| tools.contains(&entry.job.name.tool))
        };
        let first = self.by_due.iter().find(|(_, number)| is_of(number));
        let Some((&(due, _), &number)) = first else {
            return Wait::ForChange;
        };
        if due > now {
            return Wait::Until(due);
        }
        self.move_to(number, now + queue.silence);
        let Some(entry) = self.jobs.get_mut(&number) else {
            return Wait::ForChange;
        };
        entry.deliveries += 1;
        Wait::Over(Delivered {
            queue: Arc::clone(queue),
            number,
            job: entry.job.clone(),
            deliveries: entry.deliveries,
        })
    }
}

#[async_trait]
impl Jobs for MemoryJobs {
    async fn put(&self, job: Job) -> Result<(), WriteError> {
        if job.bytes.len() > JOB_BYTES_MAX {
            let bytes = job.bytes.len();
            let detail = format!("a job of {bytes} bytes; {JOB_BYTES_MAX} are taken");
            return Err(WriteError::Refused(detail));
        }
        let queue = &self.queue;
        lock(&queue.state).put(job, Instant::now(), queue.dedupe)?;
        queue.changed.notify_waiters();
        Ok(())
    }

    async fn remove(&self, name: &JobName) -> Result<(), WriteError> {
        let mut state = lock(&self.queue.state);
        let stands = |(number, entry): (&u64, &Entry)| (entry.job.name == *name).then_some(*number);
        let numbers: Vec<u64> = state.jobs.iter().filter_map(stands).collect();
        for number in numbers {
            state.remove(number);
        }
        Ok(())
    }

    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError> {
        let queue = &self.queue;
        loop {
            // Made before looking: whatever changes from here on ends the wait.
            let changed = queue.changed.notified();
            let wait = lock(&queue.state).take(tools, queue, Instant::now());
            match wait {
                Wait::Over(delivery) => return Ok(Arc::new(delivery)),
                Wait::Until(instant) => tokio::select! { biased;
                    () = changed => {}
                    () = sleep_until(instant) => {}
                },
                Wait::ForChange => changed.await,
            }
        }
    }

    async fn cancel(&self, session: &SessionKey, call: CallId) -> Result<(), WriteError> {
        self.cancels.tell(&(session.clone(), call));
        Ok(())
    }

    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, CallId)>, ReadError> {
        Ok(self.cancels.listen())
    }

    async fn progress(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        self.progress.tell(&(session.clone(), bytes));
        Ok(())
    }

    async fn progressed(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, Bytes>, ReadError> {
        let session = session.clone();
        let own = self.progress.listen().filter_map(move |(of, bytes)| {
            let own = (of == session).then_some(bytes);
            std::future::ready(own)
        });
        Ok(own.boxed())
    }

    fn addresses(&self, _session: &SessionKey, _call: CallId) -> Option<Addresses> {
        None
    }
}

/// A delivery of a job in memory.
struct Delivered {
    queue: Arc<Queue>,
    number: u64,
    job: Job,
    deliveries: u64,
}

#[async_trait]
impl JobDelivery for Delivered {
    fn job(&self) -> &Job {
        &self.job
    }

    fn deliveries(&self) -> u64 {
        self.deliveries
    }

    async fn keep_alive(&self) -> Result<(), WriteError> {
        let due = Instant::now() + self.queue.silence;
        lock(&self.queue.state).move_to(self.number, due);
        Ok(())
    }

    async fn finish(&self) -> Result<(), WriteError> {
        lock(&self.queue.state).remove(self.number);
        Ok(())
    }

    async fn give_back(&self, delay: Duration) -> Result<(), WriteError> {
        let due = Instant::now() + delay.min(JOB_DELAY_MAX);
        lock(&self.queue.state).move_to(self.number, due);
        self.queue.changed.notify_waiters();
        Ok(())
    }
}

/// News for whoever listens at the time.
#[derive(Debug)]
struct News<T> {
    listeners: Mutex<Vec<mpsc::Sender<T>>>,
}

impl<T> Default for News<T> {
    fn default() -> Self {
        Self {
            listeners: Mutex::default(),
        }
    }
}

impl<T: Clone + Send + 'static> News<T> {
    fn tell(&self, news: &T) {
        // A full listener loses it; one that is gone is forgotten.
        lock(&self.listeners).retain(|listener| {
            let _lost_when_full = listener.try_send(news.clone());
            !listener.is_closed()
        });
    }

    fn listen(&self) -> BoxStream<'static, T> {
        let (sender, receiver) = mpsc::channel(JOB_NEWS_MAX);
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(sender);
        drop(listeners);
        let news = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        news.boxed()
    }
}
