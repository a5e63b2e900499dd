//! Brokers under test, and stores on them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use steadfast_nats_server::{NatsCluster, NatsServer, Settings};
use steadfast_store::clock::SystemClock;
use steadfast_store::suite::Subject;
use steadfast_store_nats::{NatsStore, Options};

/// What is repeated is repeated after this long.
const SILENCE: Duration = Duration::from_secs(1);

/// Options for a store on one server.
pub(crate) fn on_one(server: &NatsServer) -> Options {
    Options {
        servers: vec![server.url()],
        monitor_urls: vec![server.monitor_url()],
        replicas: 1,
        partitions: 2,
        delivery_silence: SILENCE,
        timer_silence: SILENCE,
        job_silence: SILENCE,
        ..Options::default()
    }
}

/// Options for a store on three servers.
pub(crate) fn on_three(cluster: &NatsCluster) -> Options {
    Options {
        servers: cluster.urls(),
        monitor_urls: cluster.monitor_urls(),
        replicas: 3,
        require_replicas: 3,
        partitions: 1,
        delivery_silence: SILENCE,
        timer_silence: SILENCE,
        job_silence: SILENCE,
        setup_patience: Duration::from_secs(90),
        ..Options::default()
    }
}

pub(crate) async fn open(options: &Options) -> NatsStore {
    match NatsStore::open(options).await {
        Ok(store) => store,
        Err(error) => panic!("{error}"),
    }
}

/// A store as two nodes see it.
pub(crate) async fn subject_of(options: &Options) -> Subject {
    let (store, peer) = (open(options).await, open(options).await);
    Subject {
        stores: store.stores(),
        peer: peer.stores(),
        clock: Arc::new(SystemClock),
        silence: SILENCE,
        keep: Box::new(()),
    }
}

/// A fresh store on a fresh server.
pub(crate) async fn subject() -> Subject {
    let server = NatsServer::start(Settings::default());
    let subject = subject_of(&on_one(&server)).await;
    Subject {
        keep: Box::new(server),
        ..subject
    }
}

/// Removes the streams of a store, so that the servers need not agree about them any more.
pub(crate) async fn remove_streams(cluster: &NatsCluster, prefix: &str) {
    let client = async_nats::connect(cluster.urls()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let prefix = prefix.to_uppercase();
    let mut names = context.stream_names();
    let mut own = Vec::new();
    while let Some(name) = names.next().await {
        let name = name.unwrap();
        let plain = name.strip_prefix("KV_").unwrap_or(&name);
        if plain.starts_with(&format!("{prefix}_")) {
            own.push(name);
        }
    }
    for name in own {
        context.delete_stream(&name).await.unwrap();
    }
}
