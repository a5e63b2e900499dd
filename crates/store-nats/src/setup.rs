//! Makes the broker's objects, and checks those it finds.
//!
//! Any number of nodes may do this at the same time: making an object that stands as wanted is no
//! change. One that stands otherwise is never changed here: it may be another system's, or hold
//! sessions under other rules.

mod compare;
mod wanted;

use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::connect::Connection;
use crate::fault::{Fault, code};
use crate::headers;
use crate::options::Options;
use crate::subject::Names;
use compare::{CONSUMER_KEYS, STREAM_KEYS, difference};
use wanted::{Consumer, LAYOUT_BUCKET, Wanted};

/// Generation of the layout of streams and subjects.
const LAYOUT: u64 = 1;
/// Longest wait of a mere look for a broker that is not ready.
const LOOK_PATIENCE: Duration = Duration::from_secs(3);
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// Why the broker's objects cannot be used. Nothing that stood there was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// One has other settings.
    #[error(
        "{object} has other settings than this node needs: {setting} is {found}, wanted is {wanted}; \
         {remedy}"
    )]
    Differs {
        /// Which stream or consumer.
        object: String,
        /// Which setting.
        setting: String,
        /// As this node would make it.
        wanted: String,
        /// As it is.
        found: String,
        /// What can be done.
        remedy: String,
    },
    /// The store was first made with another number of partitions.
    #[error(
        "the streams were made for {found} partitions and this node is set to {wanted}: the number \
         is fixed at the first start, so set store.nats.partitions = {found}"
    )]
    Partitions {
        /// As this node is set.
        wanted: u64,
        /// As the store was made.
        found: u64,
    },
    /// It was made by a release that lays it out otherwise.
    #[error(
        "the streams have layout {found}, this release knows layout {LAYOUT}: use the release that made them"
    )]
    Layout {
        /// What stands there.
        found: u64,
    },
    /// An object cannot be made.
    #[error("{object} cannot be made: {reason}; {remedy}")]
    Refused {
        /// Which stream or consumer.
        object: String,
        /// In the broker's words.
        reason: String,
        /// What can be done.
        remedy: String,
    },
    /// The broker does not answer, or is not ready.
    #[error(
        "the broker was not ready within {waited:?} ({object}: {reason}): check that JetStream is \
         enabled for this account and that most servers of the cluster run"
    )]
    NotReady {
        /// What was asked for.
        object: String,
        /// Why.
        reason: String,
        /// How long was waited.
        waited: Duration,
    },
}

/// The streams as they stand.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Name of a stream, with what the broker tells of it.
    pub(crate) streams: Vec<(String, Value)>,
    /// Objects that are not there and were not made.
    pub(crate) missing: Vec<String>,
}

/// Makes what is missing, and checks all.
pub(crate) async fn set_up(
    connection: &Connection,
    names: &Names,
    options: &Options,
) -> Result<Found, SetupError> {
    let setup = Setup {
        connection,
        until: Instant::now() + options.setup_patience,
        patience: options.setup_patience,
    };
    let Wanted { streams, consumers } = wanted::wanted(names, options);
    let mut found = Vec::new();
    let mut streams = streams.into_iter();
    // The layout first: with other partitions, every other difference only follows from it.
    if let Some(layout) = streams.next() {
        found.push(setup.stream(&layout).await?);
        setup.layout(names).await?;
    }
    for stream in streams {
        found.push(setup.stream(&stream).await?);
    }
    for consumer in consumers {
        setup.consumer(&consumer).await?;
    }
    Ok(Found {
        streams: found,
        missing: Vec::new(),
    })
}

/// Checks what is there, and makes nothing.
pub(crate) async fn look(
    connection: &Connection,
    names: &Names,
    options: &Options,
) -> Result<Found, SetupError> {
    let setup = Setup {
        connection,
        until: Instant::now() + LOOK_PATIENCE,
        patience: LOOK_PATIENCE,
    };
    let Wanted { streams, consumers } = wanted::wanted(names, options);
    let mut found = Found {
        streams: Vec::new(),
        missing: Vec::new(),
    };
    for (position, wanted) in streams.iter().enumerate() {
        let (name, object) = stream_name(wanted);
        match setup.found(&object, &format!("STREAM.INFO.{name}")).await? {
            Some(info) => {
                check(&object, STREAM_KEYS, wanted, &info)?;
                found.streams.push((name.to_owned(), info));
                if position == 0 {
                    setup.look_at_layout(names).await?;
                }
            }
            None => found.missing.push(object),
        }
    }
    for Consumer {
        stream,
        name,
        config,
    } in &consumers
    {
        let object = format!("consumer {name} of stream {stream}");
        let info = format!("CONSUMER.INFO.{stream}.{name}");
        match setup.found(&object, &info).await? {
            Some(info) => check(&object, CONSUMER_KEYS, config, &info)?,
            None => found.missing.push(object),
        }
    }
    Ok(found)
}

fn stream_name(wanted: &Value) -> (&str, String) {
    let name = wanted.get("name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    (name, format!("stream {name}"))
}

/// Holds what the broker tells of an object against what is wanted.
fn check(object: &str, keys: &[&str], wanted: &Value, info: &Value) -> Result<(), SetupError> {
    let config = info.get("config").cloned().unwrap_or_default();
    difference(object, keys, wanted, &config)
}

struct Setup<'a> {
    connection: &'a Connection,
    until: Instant,
    patience: Duration,
}

impl Setup<'_> {
    /// Asks until the broker is ready.
    async fn ask(
        &self,
        object: &str,
        subject: &str,
        question: &Value,
    ) -> Result<Result<Value, Fault>, SetupError> {
        let mut delay = RETRY_DELAY_MIN;
        loop {
            let answer: Result<Value, Fault> = self.connection.api(subject, question).await;
            let Err(fault) = answer else {
                return Ok(answer);
            };
            if !fault.passes() {
                return Ok(Err(fault));
            }
            if Instant::now() + delay > self.until {
                return Err(self.not_ready(object, &fault));
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    fn not_ready(&self, object: &str, fault: &Fault) -> SetupError {
        if fault.code() == Some(code::NO_SUITABLE_PEERS) {
            return refused(object, fault);
        }
        SetupError::NotReady {
            object: object.to_owned(),
            reason: fault.to_string(),
            waited: self.patience,
        }
    }

    /// What the broker tells of an object; `None` when it is not there.
    async fn found(&self, object: &str, info: &str) -> Result<Option<Value>, SetupError> {
        match self.ask(object, info, &json!({})).await? {
            Ok(info) => Ok(Some(info)),
            Err(fault) => match fault.code() {
                Some(code::STREAM_NOT_FOUND | code::CONSUMER_NOT_FOUND) => Ok(None),
                Some(_) | None => Err(refused(object, &fault)),
            },
        }
    }

    /// Makes an object; `None` when another node was faster, with other settings perhaps.
    async fn make(
        &self,
        object: &str,
        create: &str,
        question: &Value,
    ) -> Result<Option<Value>, SetupError> {
        match self.ask(object, create, question).await? {
            Ok(info) => Ok(Some(info)),
            Err(fault) => match fault.code() {
                Some(
                    code::STREAM_NAME_IN_USE
                    | code::CONSUMER_NAME_EXISTS
                    | code::CONSUMER_ALREADY_EXISTS,
                ) => Ok(None),
                Some(_) | None => Err(refused(object, &fault)),
            },
        }
    }

    /// Makes or checks a stream; gives what the broker tells of it.
    async fn stream(&self, wanted: &Value) -> Result<(String, Value), SetupError> {
        let (name, object) = stream_name(wanted);
        loop {
            let mut info = self.found(&object, &format!("STREAM.INFO.{name}")).await?;
            if info.is_none() {
                let create = format!("STREAM.CREATE.{name}");
                info = self.make(&object, &create, wanted).await?;
            }
            if let Some(info) = info {
                check(&object, STREAM_KEYS, wanted, &info)?;
                return Ok((name.to_owned(), info));
            }
        }
    }

    /// Makes or checks a consumer.
    async fn consumer(&self, wanted: &Consumer) -> Result<(), SetupError> {
        let Consumer {
            stream,
            name,
            config,
        } = wanted;
        let object = format!("consumer {name} of stream {stream}");
        loop {
            let info = format!("CONSUMER.INFO.{stream}.{name}");
            let mut info = self.found(&object, &info).await?;
            if info.is_none() {
                let create = format!("CONSUMER.DURABLE.CREATE.{stream}.{name}");
                let question =
                    json!({ "stream_name": stream, "config": config, "action": "create" });
                info = self.make(&object, &create, &question).await?;
            }
            if let Some(info) = info {
                return check(&object, CONSUMER_KEYS, config, &info);
            }
        }
    }

    /// Checks the layout, when one is written.
    async fn look_at_layout(&self, names: &Names) -> Result<(), SetupError> {
        let stream = names.bucket_stream(LAYOUT_BUCKET);
        let subject = names.bucket_key(LAYOUT_BUCKET, "layout");
        let object = "the layout";
        let stands = self.connection.last(&stream, &subject).await;
        match stands.map_err(|fault| self.not_ready(object, &fault))? {
            Some(message) => {
                let found = read_layout(&message.payload);
                check_layout(&found.map_err(|fault| refused(object, &fault))?, names)
            }
            None => Ok(()),
        }
    }

    /// Writes down the partitions, or checks what was written.
    async fn layout(&self, names: &Names) -> Result<(), SetupError> {
        let object = "the layout";
        let stream = names.bucket_stream(LAYOUT_BUCKET);
        let subject = names.bucket_key(LAYOUT_BUCKET, "layout");
        let own = json!({ "layout": LAYOUT, "partitions": names.partitions });
        let mut delay = RETRY_DELAY_MIN;
        loop {
            let outcome = self.write_or_read_layout(&stream, &subject, &own).await;
            let fault = match outcome {
                Ok(found) => return check_layout(&found, names),
                Err(fault) => fault,
            };
            if Instant::now() + delay > self.until {
                return Err(self.not_ready(object, &fault));
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    async fn write_or_read_layout(
        &self,
        stream: &str,
        subject: &str,
        own: &Value,
    ) -> Result<Value, Fault> {
        if let Some(message) = self.connection.last(stream, subject).await? {
            return read_layout(&message.payload);
        }
        let map: HeaderMap = headers::map(&[(headers::EXPECTED, &0)]);
        // A conflict means that another node wrote it: the next look finds it.
        self.connection
            .publish(subject, map, own.to_string().into())
            .await?;
        Ok(own.clone())
    }
}

fn read_layout(payload: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(payload).map_err(|error| Fault::Unreadable(error.to_string()))
}

fn check_layout(found: &Value, names: &Names) -> Result<(), SetupError> {
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or_default();
    if number("layout") != LAYOUT {
        return Err(SetupError::Layout {
            found: number("layout"),
        });
    }
    let (found, wanted) = (number("partitions"), u64::from(names.partitions));
    if found != wanted {
        return Err(SetupError::Partitions { wanted, found });
    }
    Ok(())
}

fn refused(object: &str, fault: &Fault) -> SetupError {
    let remedy = match fault.code() {
        Some(code::NO_SUITABLE_PEERS | code::NOT_CLUSTERED) => {
            "start as many servers as store.nats.replicas says, or set it lower before the first start"
        }
        Some(_) | None => "check what the account of this node may do, and the room it has",
    };
    SetupError::Refused {
        object: object.to_owned(),
        reason: fault.to_string(),
        remedy: remedy.to_owned(),
    }
}
