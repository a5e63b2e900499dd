//! A node with an agent and a tool of one's own: `cargo run --example refund_desk`, then
//! `cargo run -- chat` in another terminal, and write: please call refund_order for order "A-17".

use std::net::SocketAddr;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast::tools::function::{ToolCall, ToolFailure, function};
use steadfast::{Agent, Node, RunningNode, StartError};

/// What the model fills in. The tool's schema is made from this type, comments included.
#[derive(Deserialize, JsonSchema)]
struct Refund {
    /// Number of the order.
    order: String,
    /// How much, in cents.
    cents: u64,
}

/// A `keyed` tool: when a crash cuts a call off, it is called again with the same key, by which the
/// payment provider knows that it is the same refund.
async fn refund_order(refund: Refund, call: ToolCall) -> Result<String, ToolFailure> {
    let Refund { order, cents } = refund;
    let key = call.key();
    Ok(format!(
        "refunded {cents} cents of order {order} under key {key}"
    ))
}

/// Starts the refund desk; sessions are kept in `data`.
pub async fn start(data: &Path, listen: SocketAddr) -> Result<RunningNode, StartError> {
    let agent = Agent::new("support", "scripted/demo")
        .instructions("You run a refund desk. Be kind.")
        .tool(function("refund_order", "Refunds an order", refund_order).keyed());
    Node::builder()
        .store_path(data)
        .listen(listen)
        .agent(agent)
        .start()
        .await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let node = start(Path::new("./refund-desk-data"), "127.0.0.1:7070".parse()?).await?;
    println!("the refund desk is open at {}", node.url());
    node.run_until_signal().await
}
