//! What `/metrics` tells besides requests: of the store and of the sessions in memory.

use std::sync::Arc;

use steadfast_api::{MetricsSource, MetricsText};
use steadfast_runtime::sessions::Sessions;
use steadfast_runtime::{JobFigures, WebhookFigures};
use steadfast_store_redb::Stats;

use super::store::OpenStore;

/// All sources of a node.
pub(super) fn sources(store: &OpenStore, sessions: &Sessions) -> Vec<MetricsSource> {
    let of_store: MetricsSource = match store {
        OpenStore::Redb(store) => {
            let stats = store.watch_stats();
            Arc::new(move |text: &mut MetricsText| {
                if let Some(stats) = stats() {
                    write_store(text, &stats);
                }
            })
        }
        OpenStore::Nats(store) => {
            let connected = store.watch_connected();
            Arc::new(move |text: &mut MetricsText| {
                let name = "steadfast_store_connected";
                let up = f64::from(u8::from(connected()));
                text.single(name, "gauge", "Whether the broker is reached", up);
            })
        }
    };
    let sessions = sessions.clone();
    vec![
        of_store,
        Arc::new(move |text: &mut MetricsText| {
            let count = sessions.in_memory() as f64;
            let name = "steadfast_sessions_in_memory";
            text.single(name, "gauge", "Sessions in memory", count);
            write_jobs(text, &sessions.jobs());
            if let Some(webhook) = sessions.webhook() {
                write_webhook(text, &webhook);
            }
        }),
    ]
}

/// Calls of remote tools.
fn write_jobs(text: &mut MetricsText, jobs: &JobFigures) {
    let counters = [
        (
            "queued_total",
            "Jobs that this node put into the tool queue",
            jobs.put,
        ),
        ("taken_total", "Jobs that this node was given", jobs.taken),
        (
            "redelivered_total",
            "Jobs that it was given and somebody had been given before",
            jobs.redelivered,
        ),
        ("claimed_total", "Claims of never calls won", jobs.claimed),
        (
            "claims_lost_total",
            "Jobs dropped since their claim was another's",
            jobs.claims_lost,
        ),
        (
            "given_back_total",
            "Jobs given back to the queue",
            jobs.given_back,
        ),
        ("answered_total", "Answers sent", jobs.answered),
        (
            "cancelled_total",
            "Jobs told that nobody wants their call any more",
            jobs.cancelled,
        ),
    ];
    for (name, help, value) in counters {
        let name = format!("steadfast_jobs_{name}");
        text.single(&name, "counter", help, value as f64);
    }
    let running = jobs.running as f64;
    text.single(
        "steadfast_jobs_running",
        "gauge",
        "Jobs that run here now",
        running,
    );
}

/// Events for the webhook.
fn write_webhook(text: &mut MetricsText, webhook: &WebhookFigures) {
    let counters = [
        ("taken_total", "Events that the webhook took", webhook.taken),
        (
            "failed_total",
            "Requests to the webhook that failed",
            webhook.failed,
        ),
        (
            "given_up_total",
            "Events that the webhook did not take in time",
            webhook.given_up,
        ),
    ];
    for (name, help, value) in counters {
        let name = format!("steadfast_webhook_{name}");
        text.single(&name, "counter", help, value as f64);
    }
}

/// Records a second over calls to the disk a second is how many records share one.
fn write_store(text: &mut MetricsText, stats: &Stats) {
    let families = [
        (
            "operations_total",
            "counter",
            "Writes answered",
            stats.operations,
        ),
        (
            "records_total",
            "counter",
            "Records appended",
            stats.appends,
        ),
        (
            "record_bytes_total",
            "counter",
            "Bytes of the records appended",
            stats.appended_bytes,
        ),
        (
            "conflicts_total",
            "counter",
            "Appends that lost against another",
            stats.conflicts,
        ),
        (
            "commits_total",
            "counter",
            "Transactions, each for all writes that waited",
            stats.groups,
        ),
        (
            "fsyncs_total",
            "counter",
            "Calls that had the disk keep what was written",
            stats.fsyncs,
        ),
        (
            "written_bytes_total",
            "counter",
            "Bytes written to the file",
            stats.written_bytes,
        ),
        (
            "file_bytes",
            "gauge",
            "Length of the file",
            stats.file_bytes,
        ),
        ("waiting", "gauge", "Writes that wait", stats.waiting),
    ];
    for (name, kind, help, value) in families {
        let name = format!("steadfast_store_{name}");
        text.single(&name, kind, help, value as f64);
    }
}
