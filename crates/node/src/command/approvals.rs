//! `steadfast approvals`: what waits for a person's decision on a running node, and the answers.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::sessions::{now_ms, pages, print};
use crate::client::NodeClient;
use crate::command::Target;
use crate::terminal::{GOOD, STRONG, line, paint, table, took};

/// Lists calls that wait for a person's decision, and decides about them.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    action: Action,
    /// Prints JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists what waits, over all sessions.
    List {
        /// Only of this agent's sessions.
        #[arg(long)]
        agent: Option<String>,
    },
    /// Lets a call run.
    Approve(Decision),
    /// Refuses a call; the model is told.
    Deny(Decision),
}

/// Which approval is answered, and why so.
#[derive(Debug, Args)]
struct Decision {
    /// The session.
    session: String,
    /// The approval; may be left out when the session waits for one only.
    approval: Option<String>,
    /// Why: after a yes for the tool, after a no for the model.
    #[arg(long)]
    reason: Option<String>,
}

/// Does what is asked.
pub(crate) async fn run(args: Approvals) -> anyhow::Result<()> {
    let client = args.target.client()?;
    let json = args.json;
    match args.action {
        Action::List { agent } => {
            let query: Vec<_> = agent.map(|agent| ("agent", agent)).into_iter().collect();
            let waiting = pages(&client, "/v1/approvals", &query, "approvals").await?;
            print(json, &json!({ "approvals": waiting }), |_| {
                print_table(&waiting)
            })
        }
        Action::Approve(decision) => decide(&client, json, decision, true).await,
        Action::Deny(decision) => decide(&client, json, decision, false).await,
    }
}

async fn decide(
    client: &NodeClient,
    json: bool,
    decision: Decision,
    approved: bool,
) -> anyhow::Result<()> {
    let Decision {
        session,
        approval,
        reason,
    } = decision;
    let approval = match approval {
        Some(approval) => approval,
        None => only_one(client, &session).await?,
    };
    let path = format!("/v1/sessions/{session}/approvals/{approval}");
    let mut body = json!({ "approved": approved });
    if let Some(reason) = reason {
        body["reason"] = Value::String(reason);
    }
    let answer = client.command(&path, &body).await?;
    let word = if approved { "approved" } else { "denied" };
    print(json, &answer, |_| {
        crate::terminal::say!("{}", paint(GOOD, format!("{approval} is {word}")))
    })
}

/// The approval that a session waits for. The session itself is asked: lists may be behind.
async fn only_one(client: &NodeClient, session: &str) -> anyhow::Result<String> {
    let shown = client.get(&format!("/v1/sessions/{session}")).await?;
    let waiting = shown["waiting"].as_array().into_iter().flatten();
    let approvals: Vec<&str> = waiting
        .filter_map(|waiting| waiting["approval"].as_str())
        .collect();
    match approvals.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => anyhow::bail!("session {session} waits for no approval"),
        several => anyhow::bail!(
            "session {session} waits for {} approvals, name one: {}",
            several.len(),
            several.join(", ")
        ),
    }
}

fn print_table(waiting: &[Value]) {
    if waiting.is_empty() {
        crate::terminal::say!("nothing waits for an approval");
        return;
    }
    let now = now_ms();
    let text = |item: &Value, key: &str| line(item[key].as_str().unwrap_or("-"), 64);
    let mut rows = vec![
        [
            "SESSION", "APPROVAL", "AGENT", "TOOL", "WAITS", "EXPIRES", "INPUT",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(waiting.iter().map(|item| {
        let since = item["since"].as_u64().unwrap_or(now);
        let expires = item["expires_at"].as_u64();
        vec![
            text(item, "session"),
            text(item, "approval_id"),
            text(item, "agent"),
            text(item, "tool"),
            took(now.saturating_sub(since)),
            expires.map_or("never".to_owned(), |at| {
                format!("in {}", took(at.saturating_sub(now)))
            }),
            line(&item["input"].to_string(), 80),
        ]
    }));
    for (position, row) in table(&rows).iter().enumerate() {
        match position {
            0 => crate::terminal::say!("{}", paint(STRONG, row)),
            _ => crate::terminal::say!("{row}"),
        }
    }
}
