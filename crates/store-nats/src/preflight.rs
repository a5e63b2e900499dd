//! What an acknowledgement means: read from the streams and from the servers, not believed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use steadfast_store::Guarantee;
use thiserror::Error;

use crate::options::Options;
use crate::setup::Found;

const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A message, with its headers, that must fit: a Record or a piece of a blob.
pub(crate) const MESSAGE_BYTES_MIN: usize = 640 * 1024;

/// Why the broker's promise is not enough.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PreflightError {
    /// Fewer copies than required.
    #[error(
        "stream {stream} is kept by {found} servers and store.require_replicas is {required}: \
         change it with `nats stream edit --replicas`, or require less"
    )]
    Replicas {
        /// The weakest stream.
        stream: String,
        /// Its copies.
        found: u32,
        /// What is required.
        required: u32,
    },
    /// A server acknowledges before its disk has the message.
    #[error(
        "server {server} acknowledges before it syncs to disk (sync_interval is {interval}), and \
         store.require_fsync is true: set `sync_interval: always` in its jetstream block and start \
         it anew, or set store.require_fsync = false and accept that a loss of power loses \
         acknowledged writes"
    )]
    NotSynced {
        /// Its name.
        server: String,
        /// Its setting, as it tells.
        interval: String,
    },
    /// A server's setting could not be read.
    #[error(
        "whether server {server} syncs to disk before it acknowledges is not known ({reason}), and \
         store.require_fsync is true: give its monitoring address in store.nats.monitor_url"
    )]
    SyncUnknown {
        /// Its name, or its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// Messages are bounded too tightly.
    #[error(
        "the broker takes messages of at most {found} bytes and {required} are needed: raise its \
         max_payload"
    )]
    Payload {
        /// Its bound.
        found: usize,
        /// What is needed.
        required: usize,
    },
}

/// Checks what is required; gives what is promised.
pub(crate) async fn check(
    options: &Options,
    found: &Found,
    payload_bytes_max: usize,
) -> Result<Guarantee, PreflightError> {
    if payload_bytes_max < MESSAGE_BYTES_MIN {
        return Err(PreflightError::Payload {
            found: payload_bytes_max,
            required: MESSAGE_BYTES_MIN,
        });
    }
    let replicas = replicas(options, found)?;
    let synced = synced(options, found).await;
    if options.require_fsync {
        synced.clone()?;
    }
    Ok(Guarantee {
        fsync: synced.is_ok(),
        replicas,
    })
}

fn replicas(options: &Options, found: &Found) -> Result<u32, PreflightError> {
    let mut fewest = None;
    for (stream, info) in &found.streams {
        let replicas = info.pointer("/config/num_replicas").and_then(Value::as_u64);
        let replicas = u32::try_from(replicas.unwrap_or(1))
            .unwrap_or(u32::MAX)
            .max(1);
        if replicas < options.require_replicas {
            return Err(PreflightError::Replicas {
                stream: stream.clone(),
                found: replicas,
                required: options.require_replicas,
            });
        }
        fewest = Some(fewest.map_or(replicas, |fewest: u32| fewest.min(replicas)));
    }
    // Before the first start there is none: then the streams will be made as they are wanted.
    Ok(fewest.unwrap_or(options.replicas))
}

/// Every server that keeps a copy, by name, must say that it syncs.
async fn synced(options: &Options, found: &Found) -> Result<(), PreflightError> {
    let unknown = |server: &str, reason: &str| PreflightError::SyncUnknown {
        server: server.to_owned(),
        reason: reason.to_owned(),
    };
    let mut told = BTreeMap::new();
    for url in &options.monitor_urls {
        let page = page(url).await.map_err(|reason| unknown(url, &reason))?;
        let name = page.get("server_name").and_then(Value::as_str);
        let name = name.ok_or_else(|| unknown(url, "its page has no name"))?;
        told.insert(name.to_owned(), page);
    }
    let keepers = keepers(found);
    if told.is_empty() {
        let server = keepers
            .first()
            .map_or("that keeps the streams", String::as_str);
        return Err(unknown(server, "no monitoring address is set"));
    }
    for keeper in &keepers {
        if !told.contains_key(keeper) {
            return Err(unknown(
                keeper,
                "none of the monitoring addresses is its own",
            ));
        }
    }
    for (server, page) in told {
        let config = page.pointer("/jetstream/config");
        let config = config.ok_or_else(|| unknown(&server, "it runs no JetStream"))?;
        if config.get("sync_always").and_then(Value::as_bool) != Some(true) {
            let interval = config.get("sync_interval").and_then(Value::as_u64);
            let interval = interval.map_or("unknown".to_owned(), |nanoseconds| {
                format!("{:?}", Duration::from_nanos(nanoseconds))
            });
            return Err(PreflightError::NotSynced { server, interval });
        }
    }
    Ok(())
}

/// Names of the servers that keep streams; none is told by a server without a cluster.
fn keepers(found: &Found) -> Vec<String> {
    let mut names = std::collections::BTreeSet::new();
    for (_, info) in &found.streams {
        let Some(cluster) = info.get("cluster") else {
            continue;
        };
        if let Some(leader) = cluster.get("leader").and_then(Value::as_str) {
            names.insert(leader.to_owned());
        }
        let peers = cluster.get("replicas").and_then(Value::as_array);
        for peer in peers.into_iter().flatten() {
            if let Some(name) = peer.get("name").and_then(Value::as_str) {
                names.insert(name.to_owned());
            }
        }
    }
    names.into_iter().collect()
}

async fn page(url: &str) -> Result<Value, String> {
    let client = reqwest::Client::builder()
        .timeout(PAGE_TIMEOUT)
        .no_proxy()
        .build()
        .map_err(|error| crate::connect::chain(&error))?;
    let url = format!("{}/varz", url.trim_end_matches('/'));
    let answer = client.get(&url).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let answer = answer.map_err(|error| crate::connect::chain(&error))?;
    answer
        .json()
        .await
        .map_err(|error| crate::connect::chain(&error))
}
