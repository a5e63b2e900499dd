//! The same turn in a loop without a log: what it knows dies with it, and it begins from scratch.

use super::tool_server::{Arrival, Side, ToolServer};
use super::{Tool, in_time};

/// Runs the loop, killing it in the middle of each tool's first call; gives all its requests.
pub(crate) async fn play(tools: &ToolServer) -> anyhow::Result<Vec<Arrival>> {
    for tool in Tool::ALL {
        tokio::select! {
            arrival = in_time("a call of the loop without a log", tools.arrival(Side::Naive, tool, 1)) => {
                arrival??;
            }
            finished = turn(tools) => {
                finished?;
                anyhow::bail!("the loop without a log finished before it was killed");
            }
        }
    }
    in_time("the loop without a log", turn(tools)).await??;
    Ok(tools.arrivals(Side::Naive))
}

/// One run from scratch to the end.
async fn turn(tools: &ToolServer) -> anyhow::Result<()> {
    let http = reqwest::Client::new();
    for tool in Tool::ALL {
        let url = tools.url(Side::Naive, tool);
        let body = serde_json::json!({ "order": "A-17" });
        http.post(url)
            .json(&body)
            .send()
            .await?
            .error_for_status()?;
    }
    Ok(())
}
