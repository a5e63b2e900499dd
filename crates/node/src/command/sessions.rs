//! `steadfast sessions`: looks at and acts on the sessions of a running node.

mod log;
mod repair;
mod show;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::NodeClient;
use crate::command::Target;
use crate::terminal::{GOOD, STRONG, line, paint, table, took};

/// Looks at and acts on the sessions of a running node.
#[derive(Debug, Args)]
pub(crate) struct Sessions {
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
    /// Lists sessions.
    List {
        /// Only of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Only in this status: idle, running, waiting, quarantined.
        #[arg(long)]
        status: Option<String>,
    },
    /// Shows a session and its conversation.
    Show {
        /// The session.
        id: String,
    },
    /// Prints a session's events.
    Log {
        /// The session.
        id: String,
        /// Only events after this number.
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// Says what a session waits for.
    Why {
        /// The session.
        id: String,
    },
    /// Ends the turn that runs.
    Cancel {
        /// The session.
        id: String,
    },
    /// Ends a session's quarantine, or the wait for a call in doubt.
    ///
    /// Without --settle, --skip or --retry: the session goes on after what can be read of its log. What
    /// cannot be read is kept in the store and no longer counts; turns that stood there fail, calls
    /// that may have run are in doubt, and nothing runs again.
    Repair {
        /// The session.
        id: String,
        /// Says how this call in doubt ended, with --output or --error.
        #[arg(
            long,
            value_name = "CALL",
            conflicts_with = "skip",
            requires = "outcome"
        )]
        settle: Option<String>,
        /// What the call gave.
        #[arg(long, value_name = "TEXT", group = "outcome", requires = "settle")]
        output: Option<String>,
        /// What went wrong with the call.
        #[arg(long, value_name = "TEXT", group = "outcome", requires = "settle")]
        error: Option<String>,
        /// Lets the turn go on without the outcome of this call in doubt.
        #[arg(long, value_name = "CALL", conflicts_with = "retry")]
        skip: Option<String>,
        /// Runs this call in doubt once more: it did not happen, or may happen twice.
        #[arg(long, value_name = "CALL", conflicts_with = "settle")]
        retry: Option<String>,
        /// Only shows which rows of the log would be given up.
        #[arg(long, conflicts_with_all = ["settle", "skip", "retry", "yes"])]
        dry_run: bool,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Writes a session, its conversation and its events as one JSON document.
    Export {
        /// The session.
        id: String,
        /// Where to; standard output by default.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Removes a session.
    Delete {
        /// The session.
        id: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Does what is asked.
pub(crate) async fn run(args: Sessions) -> anyhow::Result<()> {
    let client = args.target.client()?;
    let json = args.json;
    match args.action {
        Action::List { agent, status } => {
            let filter = [("agent", agent), ("status", status)];
            let sessions = list(&client, &filter).await?;
            print(json, &json!({ "sessions": sessions }), |_| {
                print_table(&sessions)
            })
        }
        Action::Show { id } => {
            let session = client.get(&format!("/v1/sessions/{id}")).await?;
            let messages = messages(&client, &id).await?;
            let whole = json!({ "session": session, "messages": messages });
            print(json, &whole, |_| show::print(&session, &messages))
        }
        Action::Log { id, after } => {
            let events = events(&client, &id, after).await?;
            print(json, &json!({ "events": events }), |_| log::print(&events))
        }
        Action::Why { id } => {
            let why = client.get(&format!("/v1/sessions/{id}/why")).await?;
            print(json, &why, show::print_why)
        }
        Action::Cancel { id } => {
            let answer = client
                .command(&format!("/v1/sessions/{id}/cancel"), &json!({}))
                .await?;
            print(json, &answer, |_| {
                crate::terminal::say!("{}", paint(GOOD, "the turn is ended"))
            })
        }
        Action::Repair {
            id,
            settle,
            output,
            error,
            skip,
            retry,
            dry_run,
            yes,
        } => {
            let wanted = repair::Wanted {
                settle,
                output,
                error,
                skip,
                retry,
            };
            repair_session(&client, json, &id, wanted, (dry_run, yes)).await
        }
        Action::Export { id, output } => export(&client, &id, output).await,
        Action::Delete { id, yes } => {
            let question = format!("Delete session {id} with its whole history?");
            if !yes && !confirmed(&question)? {
                anyhow::bail!("nothing was deleted");
            }
            let answer = client.delete(&format!("/v1/sessions/{id}")).await?;
            print(json, &answer, |_| {
                crate::terminal::say!("{}", paint(GOOD, "the session is being removed"))
            })
        }
    }
}

/// Prints the newest sessions as a table.
pub(crate) async fn print_list(client: &NodeClient, json: bool) -> anyhow::Result<()> {
    let sessions = list(client, &[]).await?;
    print(json, &json!({ "sessions": sessions }), |_| {
        print_table(&sessions)
    })
}

pub(super) fn print(json: bool, value: &Value, human: impl FnOnce(&Value)) -> anyhow::Result<()> {
    if json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        human(value);
    }
    Ok(())
}

async fn list(
    client: &NodeClient,
    filter: &[(&str, Option<String>)],
) -> anyhow::Result<Vec<Value>> {
    let mut query: Vec<(&str, String)> = filter
        .iter()
        .filter_map(|(name, value)| Some((*name, value.clone()?)))
        .collect();
    query.push(("limit", "500".to_owned()));
    let mut sessions = pages(client, "/v1/sessions", &query, "sessions").await?;
    let updated = |session: &Value| session["updated_at"].as_u64().unwrap_or_default();
    sessions.sort_by_key(|session| std::cmp::Reverse(updated(session)));
    Ok(sessions)
}

async fn messages(client: &NodeClient, id: &str) -> anyhow::Result<Vec<Value>> {
    pages(
        client,
        &format!("/v1/sessions/{id}/messages"),
        &[],
        "messages",
    )
    .await
}

/// The events of a log, in order.
async fn events(client: &NodeClient, id: &str, after: u64) -> anyhow::Result<Vec<Value>> {
    let query = [("after", after.to_string())];
    let records = pages(client, &format!("/v1/sessions/{id}/log"), &query, "records").await?;
    let entries = records
        .iter()
        .filter_map(|record| record["entries"].as_array())
        .flatten();
    let events = entries
        .filter_map(|entry| entry["events"].as_array())
        .flatten();
    let newer = |event: &&Value| event["seq"].as_u64().is_some_and(|seq| seq > after);
    Ok(events.filter(newer).cloned().collect())
}

/// All pages of a list.
pub(super) async fn pages(
    client: &NodeClient,
    path: &str,
    query: &[(&str, String)],
    key: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut parts: Vec<String> = query
            .iter()
            .filter(|(name, _)| *name != "after" || cursor.is_none())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        parts.extend(cursor.take().map(|after| format!("after={after}")));
        let page = client.get(&format!("{path}?{}", parts.join("&"))).await?;
        all.extend(page[key].as_array().cloned().unwrap_or_default());
        match &page["next"] {
            Value::String(next) => cursor = Some(next.clone()),
            Value::Number(next) => cursor = Some(next.to_string()),
            _ => return Ok(all),
        }
    }
}

fn print_table(sessions: &[Value]) {
    if sessions.is_empty() {
        crate::terminal::say!("no sessions");
        return;
    }
    let now = now_ms();
    let text = |session: &Value, key: &str| line(session[key].as_str().unwrap_or("-"), 64);
    let mut rows = vec![
        ["SESSION", "AGENT", "STATUS", "LAST TURN", "CHANGED"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(sessions.iter().map(|session| {
        let updated = session["updated_at"].as_u64().unwrap_or(now);
        vec![
            text(session, "id"),
            text(session, "agent"),
            text(session, "status"),
            text(session, "last_turn"),
            format!("{} ago", took(now.saturating_sub(updated))),
        ]
    }));
    for (position, row) in table(&rows).iter().enumerate() {
        match position {
            0 => crate::terminal::say!("{}", paint(STRONG, row)),
            _ => crate::terminal::say!("{row}"),
        }
    }
}

/// The time here, as the node writes times.
pub(super) fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// Repairs, or only shows what that would give up; asks first unless it was told not to.
async fn repair_session(
    client: &NodeClient,
    json: bool,
    id: &str,
    wanted: repair::Wanted,
    (dry_run, yes): (bool, bool),
) -> anyhow::Result<()> {
    let path = format!("/v1/sessions/{id}/repair");
    if dry_run {
        let damage = client.get(&path).await?;
        return print(json, &damage, repair::print_damage);
    }
    if wanted.is_unquarantine() && !yes {
        repair::print_damage(&client.get(&path).await?);
        let question = format!("Give up these rows of the log of session {id}?");
        if !confirmed(&question)? {
            anyhow::bail!("nothing was repaired");
        }
    }
    let done = wanted.done();
    let answer = client.command(&path, &wanted.body()).await?;
    print(json, &answer, |answer| repair::print(done, answer))
}

async fn export(client: &NodeClient, id: &str, output: Option<PathBuf>) -> anyhow::Result<()> {
    let whole = json!({
        "session": client.get(&format!("/v1/sessions/{id}")).await?,
        "messages": messages(client, id).await?,
        "events": events(client, id, 0).await?,
    });
    let mut text = serde_json::to_string_pretty(&whole)?;
    text.push('\n');
    match output {
        Some(path) => std::fs::write(&path, text)
            .with_context(|| format!("`{}` could not be written", path.display())),
        None => Ok(std::io::stdout().write_all(text.as_bytes())?),
    }
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!("say --yes to do this without a terminal");
    }
    anstream::print!("{question} [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
