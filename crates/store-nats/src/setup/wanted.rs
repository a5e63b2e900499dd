//! The objects as this release makes them.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_store::jobs::JOB_DEDUPE;
use steadfast_store::mailbox::LANE_LETTERS_MAX;

use crate::options::Options;
use crate::subject::Names;
use crate::{claims, directory, mailbox, membership, timers};

/// Bucket with what is fixed at the first start.
pub(super) const LAYOUT_BUCKET: &str = "META";
/// Letters of a partition that may be out at the same time.
const LETTERS_OUT_MAX: u64 = 20_000;
/// Timers that may be out at the same time.
const TIMERS_OUT_MAX: u64 = 20_000;
/// Messages that were put aside, for people to look at.
const DEAD_MESSAGES_MAX: u64 = 10_000;
/// How long the broker knows a message's id.
const DUPLICATE_WINDOW: Duration = JOB_DEDUPE;
/// Consumers of the tool queue, one for each tool.
const TOOLS_MAX: u64 = 10_000;

/// All objects; the stream of the layout is the first.
pub(super) struct Wanted {
    pub(super) streams: Vec<Value>,
    pub(super) consumers: Vec<Consumer>,
}

/// A durable consumer.
pub(super) struct Consumer {
    pub(super) stream: String,
    pub(super) name: String,
    pub(super) config: Value,
}

pub(super) fn wanted(names: &Names, options: &Options) -> Wanted {
    let make = Make {
        replicas: options.replicas,
    };
    let mut streams = vec![make.bucket(names, LAYOUT_BUCKET)];
    let mut consumers = Vec::new();
    for partition in 0..names.partitions {
        streams.push(make.log(names, partition));
        let mailbox = make.mailbox(names, partition);
        consumers.push(consumer(
            &mailbox,
            mailbox::CONSUMER,
            None,
            options.delivery_silence,
            LETTERS_OUT_MAX,
        ));
        streams.push(mailbox);
    }
    let timers = make.timers(names);
    consumers.push(consumer(
        &timers,
        timers::CONSUMER,
        Some(names.subject("due.>")),
        options.timer_silence,
        TIMERS_OUT_MAX,
    ));
    streams.push(timers);
    let active = [names.subject("active.>"), names.subject("owner.>")];
    streams.push(make.last_of_each(&names.active_stream(), &active));
    let blobs = [names.subject("blob.>")];
    streams.push(make.last_of_each(&names.blob_stream(), &blobs));
    let snapshots = [names.subject("snapshot.>")];
    streams.push(make.last_of_each(&names.snapshot_stream(), &snapshots));
    streams.push(make.bucket(names, directory::BUCKET));
    streams.push(make.leases(names));
    streams.push(make.claims(names));
    streams.push(make.tools(names));
    streams.push(make.dead(names));
    Wanted { streams, consumers }
}

struct Make {
    replicas: u32,
}

impl Make {
    fn stream(&self, name: &str, subjects: &[String], more: &Value) -> Value {
        let mut config = json!({
            "name": name,
            "subjects": subjects,
            "retention": "limits",
            "storage": "file",
            "num_replicas": self.replicas,
            "discard": "old",
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "max_msgs_per_subject": -1,
            "max_consumers": -1,
            "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
            "allow_direct": true,
        });
        if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
            config.extend(more.clone());
        }
        config
    }

    fn log(&self, names: &Names, partition: u32) -> Value {
        let name = names.stream(&format!("LOG_{partition}"));
        let source = names.subject(&format!("log.{partition}.*.*"));
        let destination = names.subject("committed.{{wildcard(1)}}.{{wildcard(2)}}");
        let republish = json!({ "src": source, "dest": destination, "headers_only": true });
        let more = json!({ "republish": republish });
        self.stream(&name, &[source], &more)
    }

    fn mailbox(&self, names: &Names, partition: u32) -> Value {
        let name = names.stream(&format!("MBOX_{partition}"));
        let subject = names.subject(&format!("mbox.{partition}.>"));
        let more = json!({
            "retention": "workqueue",
            "discard": "new",
            "discard_new_per_subject": true,
            "max_msgs_per_subject": LANE_LETTERS_MAX,
        });
        self.stream(&name, &[subject], &more)
    }

    fn timers(&self, names: &Names) -> Value {
        let subjects = [names.subject("timer.>"), names.subject("due.>")];
        let more = json!({
            "retention": "workqueue",
            "allow_msg_schedules": true,
            "allow_msg_ttl": true,
            "allow_rollup_hdrs": true,
        });
        self.stream(&names.timer_stream(), &subjects, &more)
    }

    fn last_of_each(&self, name: &str, subjects: &[String]) -> Value {
        self.stream(name, subjects, &json!({ "max_msgs_per_subject": 1 }))
    }

    fn bucket(&self, names: &Names, bucket: &str) -> Value {
        let subjects = [names.bucket_key(bucket, ">")];
        let more = json!({
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": true,
            "deny_delete": true,
        });
        self.stream(&names.bucket_stream(bucket), &subjects, &more)
    }

    /// A bucket whose values vanish, and are told of when they are stored.
    fn leases(&self, names: &Names) -> Value {
        let source = names.bucket_key(membership::BUCKET, "*");
        let destination = names.lease("{{wildcard(1)}}");
        let mut config = self.bucket(names, membership::BUCKET);
        if let Some(config) = config.as_object_mut() {
            config.insert("allow_msg_ttl".to_owned(), true.into());
            let republish = json!({ "src": source, "dest": destination });
            config.insert("republish".to_owned(), republish);
        }
        config
    }

    fn claims(&self, names: &Names) -> Value {
        let mut config = self.bucket(names, claims::BUCKET);
        if let Some(config) = config.as_object_mut() {
            config.insert("max_age".to_owned(), nanoseconds(claims::KEPT).into());
        }
        config
    }

    fn tools(&self, names: &Names) -> Value {
        let more = json!({ "retention": "workqueue", "max_consumers": TOOLS_MAX });
        self.stream(&names.tool_stream(), &[names.subject("tool.>")], &more)
    }

    fn dead(&self, names: &Names) -> Value {
        let more = json!({ "max_msgs": DEAD_MESSAGES_MAX });
        self.stream(&names.stream("DEAD"), &[names.dead()], &more)
    }
}

fn consumer(
    stream: &Value,
    name: &str,
    filter: Option<String>,
    silence: Duration,
    out_max: u64,
) -> Consumer {
    let mut config = json!({
        "durable_name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(silence),
        "max_deliver": -1,
        "max_ack_pending": out_max,
        "replay_policy": "instant",
    });
    if let (Some(filter), Some(config)) = (filter, config.as_object_mut()) {
        config.insert("filter_subject".to_owned(), filter.into());
    }
    Consumer {
        stream: stream["name"].as_str().unwrap_or_default().to_owned(),
        name: name.to_owned(),
        config,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
