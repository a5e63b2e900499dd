//! A turn of many deltas over HTTP, with few and with many followers of its session.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::http_node::{Binary, HttpNode};
use crate::percentile::Times;
use crate::process;

const SESSION: &str = "followed";
const DELTAS: usize = 200;
const END: &[u8] = b"event: turn_ended";

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    binary: Binary,
    /// Followers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000])]
    followers: Vec<usize>,
    /// Milliseconds between two deltas.
    #[arg(long, default_value_t = 10)]
    delay_ms: u64,
    /// Turns of each measurement.
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let node = HttpNode::start(&options.binary, data).await?;
    node.turn(SESSION, r#"SCRIPT: [{"text":"ready"}]"#).await?;
    let delay_ms = options.delay_ms;
    println!("a turn of {DELTAS} deltas, one every {delay_ms} ms");
    println!("followers  turn p50 ms  last follower p50 ms  CPU s node, client");
    let mut p50s = Vec::new();
    for &followers in &options.followers {
        let (mut turn, mut last) = (Times::default(), Times::default());
        let mut cpu = (0.0, 0.0);
        for _ in 0..options.turns {
            let before = cpu_seconds(&node)?;
            let (ended, told) = measure(&node, followers, delay_ms).await?;
            let after = cpu_seconds(&node)?;
            cpu = (cpu.0 + after.0 - before.0, cpu.1 + after.1 - before.1);
            turn.add(ended);
            last.add(told);
        }
        println!(
            "{followers:>9} {:>12.0} {:>21.0}  {:>8.2}, {:.2}",
            turn.p50_ms(),
            last.p50_ms(),
            cpu.0,
            cpu.1
        );
        p50s.push(last.p50_ms());
    }
    if let (Some(first), Some(last)) = (p50s.first(), p50s.last()) {
        println!("most / fewest followers: {:.2}", last / first);
    }
    node.stop().await
}

fn cpu_seconds(node: &HttpNode) -> Result<(f64, f64)> {
    let own = process::cpu_seconds(std::process::id())?;
    Ok((process::cpu_seconds(node.pid)?, own))
}

/// When the turn had ended, and when the last follower was told so.
async fn measure(node: &HttpNode, followers: usize, delay_ms: u64) -> Result<(Duration, Duration)> {
    let after = newest_event(node).await?;
    let mut following = JoinSet::new();
    let (ready, mut readies) = mpsc::channel(followers);
    for _ in 0..followers {
        following.spawn(follow(node.address.clone(), after, ready.clone()));
    }
    drop(ready);
    for _ in 0..followers {
        readies.recv().await.context("a follower ended early")?;
    }
    let text = "0123456789 ".repeat(DELTAS);
    let delay = delay_ms as f64 / 1_000.0;
    let script = format!(r#"SCRIPT: [{{"text":"{text}","chunks":{DELTAS},"delay":{delay}}}]"#);
    let start = Instant::now();
    node.turn(SESSION, &script).await?;
    let ended = start.elapsed();
    while let Some(done) = following.join_next().await {
        done??;
    }
    Ok((ended, start.elapsed()))
}

async fn newest_event(node: &HttpNode) -> Result<u64> {
    let url = format!("http://{}/v1/sessions/{SESSION}", node.address);
    let text = node.http.get(url).send().await?.text().await?;
    let session: serde_json::Value = serde_json::from_str(&text)?;
    session["seq"].as_u64().context("a session without seq")
}

/// Reads a session's events as bytes until its turn has ended.
async fn follow(address: String, after: u64, ready: mpsc::Sender<()>) -> Result<()> {
    let mut stream = TcpStream::connect(&address).await?;
    let request = format!(
        "GET /v1/sessions/{SESSION}/events?after={after} HTTP/1.1\r\nHost: {address}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut ready = Some(ready);
    let mut buffer = vec![0; 16 * 1024];
    // What may be the start of the end.
    let mut kept: Vec<u8> = Vec::new();
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "the stream ended before the turn");
        // The head and the opening comment came: it is being followed.
        if let Some(ready) = ready.take() {
            ready.send(()).await?;
        }
        kept.extend(buffer.iter().take(read));
        if kept.windows(END.len()).any(|window| window == END) {
            return Ok(());
        }
        kept.drain(..kept.len().saturating_sub(END.len()));
    }
}
