//! The canonical turn on brokers: one, two and three nodes, and beside them what the brokers take
//! alone, in the same run.
//!
//! All run on one machine: more nodes share its cores, so they can only show what spreading costs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_nats::ServerAddr;
use async_nats::jetstream::{self, stream};
use tokio::task::JoinSet;

use crate::cluster::Servers;
use crate::http_node::{Binary, HttpNode};
use crate::percentile::Times;
use crate::turns::{self, Name};

/// A turn's Records.
const RECORDS_A_TURN: f64 = 4.0;
/// About as long as one of them.
const RECORD_BYTES: usize = 512;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    binary: Binary,
    /// Brokers, each with a copy of everything: 1 or 3.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3])]
    servers: Vec<u8>,
    /// Nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    nodes: Vec<usize>,
    /// Clients at a time, spread over the nodes; every turn has a session of its own.
    #[arg(long, default_value_t = 128)]
    clients: usize,
    /// Seconds of each measurement, after a warm-up of a fifth of that.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    println!("servers  nodes  turns/s   p50 ms   p99 ms  records/s  of the brokers alone");
    for &servers in &options.servers {
        let servers = Servers::start(servers);
        let copies = servers.urls().len();
        let raw = appends_per_second(&servers, options).await?;
        println!("{copies:>7}      -        -        -        - {raw:>10.0}  1.00");
        for &count in &options.nodes {
            let nodes = start(&servers, count, options, data).await?;
            let time = Duration::from_secs(options.seconds);
            turns::load(&nodes, options.clients, time / 5, Name::Fresh).await?;
            let start = Instant::now();
            let times = turns::load(&nodes, options.clients, time, Name::Fresh).await?;
            let turns = times.len() as f64 / start.elapsed().as_secs_f64();
            let records = turns * RECORDS_A_TURN;
            println!(
                "{copies:>7} {count:>6} {turns:>8.0} {:>8.2} {:>8.2} {records:>10.0}  {:.2}",
                times.p50_ms(),
                times.percentile_ms(99),
                records / raw,
            );
            for node in nodes {
                node.stop().await?;
            }
        }
    }
    Ok(())
}

async fn start(
    servers: &Servers,
    count: usize,
    options: &Options,
    data: &Path,
) -> Result<Vec<HttpNode>> {
    let mut nodes = Vec::new();
    for number in 1..=count {
        let mut set = servers.set();
        set.push(format!("node.name=n{number}"));
        nodes.push(HttpNode::start_with(&options.binary, data, &set).await?);
    }
    Ok(nodes)
}

/// Messages that the brokers acknowledge in a second, each client with one in flight, each on a
/// subject of its own that no other writes to, as a Record is.
async fn appends_per_second(servers: &Servers, options: &Options) -> Result<f64> {
    let urls = servers.urls();
    let addresses: Result<Vec<ServerAddr>, _> = urls.iter().map(|url| url.parse()).collect();
    let client = async_nats::connect(addresses?).await?;
    let broker = jetstream::new(client);
    let config = stream::Config {
        name: "alone".to_owned(),
        subjects: vec!["alone.*".to_owned()],
        num_replicas: servers.urls().len(),
        ..Default::default()
    };
    broker.create_stream(config).await?;
    let time = Duration::from_secs(options.seconds);
    let mut running = JoinSet::new();
    let start = Instant::now();
    for number in 0..options.clients {
        let (broker, until) = (broker.clone(), start + time);
        running.spawn(append(broker, format!("alone.{number}"), until));
    }
    let mut times = Times::default();
    while let Some(done) = running.join_next().await {
        times.extend(done.context("a client failed")??);
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    broker.delete_stream("alone").await?;
    Ok(rate)
}

async fn append(broker: jetstream::Context, subject: String, until: Instant) -> Result<Times> {
    let mut times = Times::default();
    let mut last = 0;
    while Instant::now() < until {
        let message = jetstream::message::PublishMessage::build()
            .payload(vec![7; RECORD_BYTES].into())
            .expected_last_subject_sequence(last);
        let start = Instant::now();
        let sent = broker.send_publish(subject.clone(), message).await?;
        last = sent.await?.sequence;
        times.add(start.elapsed());
    }
    Ok(times)
}
