//! `steadfast chat`: a conversation with an agent of a running node.

mod editor;
mod screen;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{ClientError, Follow, Happening, NodeClient};
use crate::command::Target;
use crate::command::chat::editor::{Editor, Typed};
use crate::command::chat::screen::{Ask, Next, Screen};
use crate::command::sessions::print_list;
use crate::terminal::{BAD, DIM, STRONG, paint};

const HELP: &str = "\
  /new              begin another session
  /sessions         list sessions
  /cancel           end the turn that runs
  /quit             leave; the session stays
  Ctrl-C            while the agent works: end the turn; again: leave";

/// A conversation with an agent of a running node.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The agent; the only or first one by default.
    agent: Option<String>,
    /// Goes on with this session instead of a new one.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Runs the chat until the user leaves; whether the last turn came to a good end.
pub(crate) async fn run(args: Chat) -> anyhow::Result<bool> {
    let client = args.target.client()?;
    let agent = match &args.session {
        Some(id) => known_agent(&client, id).await?,
        None => choose_agent(&client, args.agent.as_deref()).await?,
    };
    let mut screen = Screen::new(Box::new(anstream::stdout()));
    let mut talk = Talk::open(client, agent, args.session).await?;
    talk.greet(&mut screen)?;
    let editor = Editor::start()?;
    let mut good = talk.until_idle(&mut screen, &editor).await?;
    while good != Outcome::Left {
        let typed = editor.ask(&prompt()).await;
        let Typed::Line(text) = typed else {
            break;
        };
        match text.trim() {
            "" => {}
            "/quit" | "/exit" | "/q" => break,
            "/help" | "/?" => screen.say(HELP)?,
            "/sessions" => print_list(&talk.client, false).await?,
            "/new" => {
                talk = Talk::open(talk.client, talk.agent, None).await?;
                screen = Screen::new(Box::new(anstream::stdout()));
                talk.greet(&mut screen)?;
                good = talk.until_idle(&mut screen, &editor).await?;
            }
            "/cancel" => screen.note(DIM, "no turn runs")?,
            command if command.starts_with('/') => {
                screen.note(BAD, &format!("unknown command {command}; /help lists them"))?;
            }
            _ => good = talk.turn(&text, &mut screen, &editor).await?,
        }
    }
    screen.say(paint(
        DIM,
        format!(
            "The session stays: steadfast chat --session {}",
            talk.session
        ),
    ))?;
    Ok(good != Outcome::Bad)
}

fn prompt() -> String {
    // The editor measures the prompt itself and leaves colours out of it.
    "› ".to_owned()
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The agent answered, or there was no turn.
    Good,
    /// It did not.
    Bad,
    /// The user wants to leave.
    Left,
}

/// One session that is talked in.
struct Talk {
    client: NodeClient,
    agent: String,
    session: String,
    follow: Follow,
}

impl Talk {
    async fn open(
        client: NodeClient,
        agent: String,
        session: Option<String>,
    ) -> anyhow::Result<Self> {
        let session = session.unwrap_or_else(|| format!("chat-{}", uuid::Uuid::now_v7().simple()));
        let path = format!("/v1/sessions/{session}");
        client.put(&path, &json!({ "agent": agent })).await?;
        let follow = Follow::after(&client, &session, 0);
        Ok(Self {
            client,
            agent,
            session,
            follow,
        })
    }

    fn greet(&self, screen: &mut Screen) -> std::io::Result<()> {
        let line = format!(
            "{} {}",
            paint(STRONG, &self.agent),
            paint(
                DIM,
                format!("at {}, session {}; /help", self.client.base(), self.session)
            )
        );
        screen.say(line)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.session)
    }

    /// Shows what the session holds so far, and sees a turn that runs to its end.
    async fn until_idle(
        &mut self,
        screen: &mut Screen,
        editor: &Editor,
    ) -> anyhow::Result<Outcome> {
        loop {
            let happening = self.follow.next().await?;
            screen.show(&happening)?;
            if matches!(happening, Happening::CaughtUp) {
                break;
            }
        }
        let Some(turn) = screen.turn() else {
            return Ok(Outcome::Good);
        };
        if !self.answer_all(screen.owed(), turn, screen, editor).await? {
            return Ok(Outcome::Left);
        }
        self.watch(None, screen, editor).await
    }

    /// Sends a message and shows its turn.
    async fn turn(
        &mut self,
        text: &str,
        screen: &mut Screen,
        editor: &Editor,
    ) -> anyhow::Result<Outcome> {
        let body = json!({ "id": uuid::Uuid::now_v7().to_string(), "content": text });
        let sent = self.client.command(&self.path("/messages"), &body).await;
        let receipt = match sent {
            Ok(receipt) => receipt,
            Err(error) => {
                screen.note(BAD, &format!("✗ {error}"))?;
                return Ok(Outcome::Bad);
            }
        };
        let turn = receipt.get("turn_id").and_then(Value::as_u64);
        self.watch(turn, screen, editor).await
    }

    /// Shows the stream until a turn has ended: this one, or the one that runs.
    async fn watch(
        &mut self,
        awaited: Option<u64>,
        screen: &mut Screen,
        editor: &Editor,
    ) -> anyhow::Result<Outcome> {
        let mut interrupted = false;
        loop {
            let happening = tokio::select! {
                happening = self.follow.next() => happening?,
                signal = tokio::signal::ctrl_c() => {
                    signal?;
                    if std::mem::replace(&mut interrupted, true) {
                        return Ok(Outcome::Left);
                    }
                    self.cancel(screen.turn().or(awaited), screen).await?;
                    continue;
                }
            };
            match screen.show(&happening)? {
                Next::Go => {}
                Next::Ask(asks) => {
                    let turn = screen.turn().or(awaited).unwrap_or_default();
                    if !self.answer_all(asks, turn, screen, editor).await? {
                        return Ok(Outcome::Left);
                    }
                }
                Next::Ended { turn, good } if awaited.is_none_or(|awaited| awaited == turn) => {
                    return Ok(if good { Outcome::Good } else { Outcome::Bad });
                }
                Next::Ended { .. } => {}
            }
        }
    }

    async fn cancel(&self, turn: Option<u64>, screen: &mut Screen) -> anyhow::Result<()> {
        screen.note(DIM, "cancelling; Ctrl-C again leaves")?;
        let body = turn.map_or_else(|| json!({}), |turn| json!({ "turn_id": turn }));
        match self.client.command(&self.path("/cancel"), &body).await {
            Ok(_) => Ok(()),
            // It ended by itself in the same moment.
            Err(error) if error.code() == Some("turn_not_running") => Ok(()),
            Err(error) => Ok(screen.note(BAD, &format!("✗ {error}"))?),
        }
    }

    /// Asks the user one thing after the other; `false`: the user wants to leave.
    async fn answer_all(
        &self,
        asks: Vec<Ask>,
        turn: u64,
        screen: &mut Screen,
        editor: &Editor,
    ) -> anyhow::Result<bool> {
        for ask in asks {
            let (path, body) = match self.answer(&ask, screen, editor).await? {
                Reply::Send(path, body) => (path, body),
                Reply::Cancel => {
                    self.cancel(Some(turn), screen).await?;
                    return Ok(true);
                }
                Reply::Leave => return Ok(false),
            };
            if let Err(error) = self.client.command(&self.path(&path), &body).await {
                screen.note(BAD, &format!("✗ {error}"))?;
            }
        }
        Ok(true)
    }

    async fn answer(
        &self,
        ask: &Ask,
        screen: &mut Screen,
        editor: &Editor,
    ) -> anyhow::Result<Reply> {
        loop {
            let question = match ask {
                Ask::Approve { tool, .. } => format!("  may {tool} run? [y/n, and a reason] "),
                Ask::Run { tool, .. } => {
                    format!("  result of {tool} (JSON or text; \"error: ...\" for an error): ")
                }
            };
            let text = match editor.ask(&question).await {
                Typed::Line(text) => text,
                Typed::Interrupted => return Ok(Reply::Cancel),
                Typed::End => return Ok(Reply::Leave),
            };
            match ask {
                Ask::Approve { approval, .. } => match decision(&text) {
                    Some(body) => return Ok(Reply::Send(format!("/approvals/{approval}"), body)),
                    None => screen.note(DIM, "y or n, for example: n not before Monday")?,
                },
                Ask::Run { call, .. } => {
                    return Ok(Reply::Send(format!("/calls/{call}/result"), result(&text)));
                }
            }
        }
    }
}

enum Reply {
    Send(String, Value),
    Cancel,
    Leave,
}

/// Reads `y`, `n`, or either with a reason behind it.
fn decision(text: &str) -> Option<Value> {
    let (word, reason) = text
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((text.trim(), ""));
    let approved = match word.to_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return None,
    };
    let mut body = json!({ "approved": approved });
    if !reason.trim().is_empty() {
        body["reason"] = json!(reason.trim());
    }
    Some(body)
}

/// Reads a client's result: JSON if it is that, else text.
fn result(text: &str) -> Value {
    match text.trim().strip_prefix("error:") {
        Some(error) => json!({ "error": error.trim() }),
        None => {
            let output = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            json!({ "output": output })
        }
    }
}

async fn known_agent(client: &NodeClient, session: &str) -> Result<String, ClientError> {
    let session = client.get(&format!("/v1/sessions/{session}")).await?;
    Ok(session["agent"].as_str().unwrap_or_default().to_owned())
}

async fn choose_agent(client: &NodeClient, wanted: Option<&str>) -> anyhow::Result<String> {
    let listed = client.get("/v1/agents").await?;
    let names: Vec<&str> = listed["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|agent| agent["name"].as_str())
        .collect();
    match (wanted, names.as_slice()) {
        (Some(wanted), names) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), names) => {
            anyhow::bail!(
                "the node has no agent {wanted}; it has: {}",
                names.join(", ")
            )
        }
        (None, [first, ..]) => Ok((*first).to_owned()),
        (None, []) => anyhow::bail!("the node has no agents"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_may_carry_a_reason() {
        assert_eq!(decision("y"), Some(json!({ "approved": true })));
        assert_eq!(
            decision(" No  too much "),
            Some(json!({ "approved": false, "reason": "too much" }))
        );
        assert_eq!(decision("maybe"), None);
        assert_eq!(decision(""), None);
    }

    #[test]
    fn results_are_json_text_or_an_error() {
        assert_eq!(result("{\"a\": 1}"), json!({ "output": { "a": 1 } }));
        assert_eq!(result("sunny"), json!({ "output": "sunny" }));
        assert_eq!(result("error: no"), json!({ "error": "no" }));
    }
}
