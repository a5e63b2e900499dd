//! The tool queue on JetStream: a job is a message in a work queue, workers of a tool share one
//! consumer. Workers in any language take from the same consumers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::{HeaderMap, Message, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::select_all;
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use steadfast_core::id::{CallId, SessionKey};
use steadfast_protocol::tool::Addresses;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::jobs::{JOB_BYTES_MAX, JOB_DELAY_MAX, Job, JobDelivery, JobName, Jobs};

use crate::fault::code;
use crate::headers;
use crate::pull::{ConsumerName, Pulled, Puller, Receipt};
use crate::request::Shared;
use crate::subject::{Names, session_key};
use crate::task::lock;

/// Jobs of a tool that may be out at the same time.
const JOBS_OUT_MAX: u64 = 20_000;

/// [`Jobs`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsJobs {
    connection: Shared,
    names: Arc<Names>,
    silence: Duration,
    /// One for each tool that this node has workers of.
    pullers: Mutex<BTreeMap<String, Arc<Puller>>>,
}

impl NatsJobs {
    pub(crate) fn new(connection: Shared, names: Arc<Names>, silence: Duration) -> Self {
        Self {
            connection,
            names,
            silence,
            pullers: Mutex::default(),
        }
    }

    async fn puller(&self, tool: &str) -> Result<Arc<Puller>, ReadError> {
        if let Some(puller) = lock(&self.pullers).get(tool) {
            return Ok(Arc::clone(puller));
        }
        let consumer = self.consumer(tool).await?;
        let mut pullers = lock(&self.pullers);
        let puller = pullers.entry(tool.to_owned()).or_insert_with(|| {
            let connection = Arc::clone(&self.connection);
            Arc::new(Puller::new(connection, vec![consumer], 1, self.silence))
        });
        Ok(Arc::clone(puller))
    }

    /// Makes the consumer of a tool's workers; one that stands as wanted is left as it is.
    async fn consumer(&self, tool: &str) -> Result<ConsumerName, ReadError> {
        let stream = self.names.tool_stream();
        let consumer = format!("tool_{tool}");
        let silence = u64::try_from(self.silence.as_nanos()).unwrap_or(u64::MAX);
        let question = json!({
            "stream_name": stream,
            "action": "create",
            "config": {
                "durable_name": consumer,
                "filter_subject": self.names.jobs_of_tool(tool),
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": silence,
                "max_deliver": -1,
                "max_ack_pending": JOBS_OUT_MAX,
                "replay_policy": "instant",
            },
        });
        let create = format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}");
        let _made: Value = self.connection.api(&create, &question).await?;
        Ok(ConsumerName { stream, consumer })
    }

    fn delivery(&self, pulled: Pulled) -> Option<Delivered> {
        let name = self.names.job_of(&pulled.subject)?;
        Some(Delivered {
            connection: Arc::clone(&self.connection),
            job: Job {
                name,
                bytes: pulled.payload,
            },
            deliveries: pulled.deliveries,
            receipt: pulled.receipt,
        })
    }

    async fn listen(&self, subject: String) -> Result<Subscriber, ReadError> {
        let told = self.connection.client.subscribe(subject).await;
        told.map_err(|error| ReadError::Unavailable(error.to_string()))
    }

    async fn tell(&self, subject: String, bytes: Bytes) -> Result<(), WriteError> {
        self.connection.ready().await?;
        let told = self.connection.client.publish(subject, bytes).await;
        told.map_err(|error| WriteError::Unknown(error.to_string()))
    }
}

#[async_trait]
impl Jobs for NatsJobs {
    async fn put(&self, job: Job) -> Result<(), WriteError> {
        if job.bytes.len() > JOB_BYTES_MAX {
            let bytes = job.bytes.len();
            let detail = format!("a job of {bytes} bytes; {JOB_BYTES_MAX} are taken");
            return Err(WriteError::Refused(detail));
        }
        let subject = self.names.job(&job.name);
        // The broker swallows what it had under this name a short time ago.
        let map: HeaderMap = headers::map(&[(headers::MESSAGE_ID, &subject)]);
        match self.connection.publish(&subject, map, job.bytes).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.code() == Some(code::DUPLICATE_IN_FLIGHT) => {
                Err(WriteError::Unknown("the same job is being put".to_owned()))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    async fn remove(&self, job: &JobName) -> Result<(), WriteError> {
        let (stream, subject) = (self.names.tool_stream(), self.names.job(job));
        Ok(self.connection.purge(&stream, &subject, None).await?)
    }

    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError> {
        let mut pullers = Vec::new();
        for tool in tools {
            pullers.push(self.puller(tool).await?);
        }
        if pullers.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let waits = pullers.iter().map(|puller| Box::pin(puller.next()));
            let (pulled, _, _) = select_all(waits).await;
            let pulled = pulled?;
            let (subject, receipt) = (pulled.subject.clone(), pulled.receipt.clone());
            if let Some(delivery) = self.delivery(pulled) {
                return Ok(Arc::new(delivery));
            }
            tracing::error!(subject, "a message that is no job is removed");
            if let Err(error) = self.connection.tell(&receipt, AckKind::Term).await {
                tracing::debug!(%error, "it was not removed and comes again");
            }
        }
    }

    async fn cancel(&self, session: &SessionKey, call: CallId) -> Result<(), WriteError> {
        self.tell(self.names.cancel(session, call), Bytes::new())
            .await
    }

    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, CallId)>, ReadError> {
        let told = self.listen(self.names.cancels()).await?;
        let calls = told.filter_map(|news| std::future::ready(cancelled_call(&news)));
        Ok(calls.boxed())
    }

    async fn progress(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        self.tell(self.names.progress(session), bytes).await
    }

    async fn progressed(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, Bytes>, ReadError> {
        let told = self.listen(self.names.progress(session)).await?;
        Ok(told.map(|news| news.payload).boxed())
    }

    fn addresses(&self, session: &SessionKey, call: CallId) -> Option<Addresses> {
        Some(Addresses {
            answers: self.names.mail(session, crate::mailbox::CONTROL_LANE),
            progress: self.names.progress(session),
            cancels: self.names.cancel(session, call),
            claims: self.names.stream(crate::claims::BUCKET),
        })
    }
}

/// The call of `<root>.cancel.<t>.<s>.<call>`.
fn cancelled_call(news: &Message) -> Option<(SessionKey, CallId)> {
    let mut tokens = news.subject.rsplitn(4, '.');
    let call = tokens.next()?.parse().ok()?;
    let session = tokens.next()?;
    let session = session_key(tokens.next()?, session)?;
    Some((session, call))
}

/// A delivery of a job.
struct Delivered {
    connection: Shared,
    job: Job,
    deliveries: u64,
    receipt: Receipt,
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
        self.connection.tell(&self.receipt, AckKind::Progress).await
    }

    async fn finish(&self) -> Result<(), WriteError> {
        let done = AckKind::Ack;
        self.connection.tell_surely(&self.receipt, done).await
    }

    async fn give_back(&self, delay: Duration) -> Result<(), WriteError> {
        let later = AckKind::Nak(Some(delay.min(JOB_DELAY_MAX)));
        self.connection.tell(&self.receipt, later).await
    }
}
