//! Answers the call of another session with how a turn of this one ended: a letter, as a remote
//! worker writes it. It may come twice; a call settles once.

use std::time::Duration;

use steadfast_core::child::ParentCall;
use steadfast_core::content::{CallOutput, ReplyPart, Stored, ToolOutput};
use steadfast_core::event::{Event, TurnOutcome};
use steadfast_core::id::Seq;
use steadfast_core::transcript::ItemBody;
use steadfast_protocol::tool::{self, Answer, Kind, Outcome};
use steadfast_store::error::WriteError;
use steadfast_store::mailbox::{Lane, SendError};

use super::task::Task;
use crate::host::backoff;
use crate::load::{self, ValueError};

const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A text of a letter, at most: as JSON it may be six times as long.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// The attempt that is answered: such a call has one.
const ATTEMPT: u32 = 1;

/// A turn that another session asked for and that ended.
pub(super) struct Ended {
    pub(super) parent: ParentCall,
    pub(super) outcome: TurnOutcome,
    pub(super) last_item: Option<Seq>,
}

/// Sends the answer until it stands in the mailbox; `false`: not now.
pub(super) async fn send(task: &Task, ended: Ended) -> bool {
    let Some(output) = output(task, &ended).await else {
        return false;
    };
    let key = ended.parent.key(&task.session.key.tenant);
    let call = ended.parent.call;
    let answer = |output| Answer {
        version: tool::VERSION,
        kind: Kind::Run,
        call,
        attempt: ATTEMPT,
        outcome: Outcome::Finished { output },
    };
    let bytes = match tool::encode_answer(&answer(output)) {
        Ok(bytes) => bytes,
        Err(error) => {
            let words = format!("it answered, but its answer cannot be sent: {error}");
            match tool::encode_answer(&answer(ToolOutput::error(words).into())) {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::error!(session = %key, %error, "a sub-agent's answer is lost");
                    return true;
                }
            }
        }
    };
    let id = format!("answer-{call}-{ATTEMPT}");
    let mailbox = &task.host.stores.mailbox;
    let mut tries = 0;
    loop {
        let sent = mailbox.send(&key, Lane::Control, &id, bytes.clone().into());
        match sent.await {
            Ok(_) => return true,
            Err(SendError::Write(WriteError::Refused(detail))) => {
                tracing::error!(session = %key, id, detail, "a sub-agent's answer is refused");
                return true;
            }
            Err(error) => {
                tries += 1;
                tracing::warn!(session = %key, id, tries, %error, "answer not sent, again");
                tokio::time::sleep(backoff(WAIT_MIN, WAIT_MAX, tries)).await;
            }
        }
    }
}

async fn output(task: &Task, ended: &Ended) -> Option<CallOutput> {
    let session = &task.session.key.session;
    let failed = |words: String| Some(ToolOutput::error(words).into());
    match &ended.outcome {
        TurnOutcome::Completed { .. } => match answer(task, ended).await {
            Ok(output) => Some(output),
            Err(ValueError::Unavailable(detail)) => {
                tracing::warn!(session = %task.session.key, detail, "answer not read, again");
                None
            }
            Err(ValueError::Damaged(detail)) => {
                failed(format!("the agent answered in session {session}: {detail}"))
            }
        },
        TurnOutcome::Failed { code, message } => failed(format!(
            "the agent did not come to an answer ({code}: {message}); session {session} has what it did"
        )),
        TurnOutcome::Cancelled => failed(format!(
            "somebody ended the agent's turn; session {session} has what it did"
        )),
        TurnOutcome::Superseded | TurnOutcome::Rejected => failed(format!(
            "the agent was told something else instead; session {session} has what it did"
        )),
    }
}

/// What the turn came to: the text of its last reply, or the last result of the tools that ended it.
async fn answer(task: &Task, ended: &Ended) -> Result<CallOutput, ValueError> {
    let items = task.session.transcript.items.iter();
    let mut items = items.filter(|item| Some(item.seq) == ended.last_item);
    let blobs = &*task.host.stores.blobs;
    let key = &task.session.key;
    match items.next().map(|item| &item.body) {
        Some(ItemBody::Reply { parts, .. }) => text_of(task, parts).await,
        Some(ItemBody::Results { results, .. }) => {
            let Some(last) = results.last() else {
                return Ok(ToolOutput::text("").into());
            };
            let whole = load::value(blobs, key, &last.output.output).await?;
            Ok(cut(whole).into())
        }
        // It was summarised since: the log has it.
        _ => of_log(task, ended).await,
    }
}

async fn of_log(task: &Task, ended: &Ended) -> Result<CallOutput, ValueError> {
    let gone = || ValueError::Damaged("its answer is no longer in the conversation".to_owned());
    let seq = ended.last_item.ok_or_else(gone)?;
    let sessions = task.host.sessions();
    let sessions = sessions.ok_or_else(|| ValueError::Unavailable("shutting down".to_owned()))?;
    let before = Seq(seq.0.saturating_sub(1));
    let read = sessions.records(&task.session.key, before, 1).await;
    let records = read.map_err(|error| ValueError::Unavailable(error.to_string()))?;
    for record in records {
        let events = record.entries.iter().flat_map(|entry| &entry.events);
        let mut numbered = (record.first_seq.0..).zip(events);
        match numbered.find(|(number, _)| *number == seq.0) {
            Some((_, Event::ModelReplied { parts, .. })) => return text_of(task, parts).await,
            Some((_, Event::CallSettled { output, .. })) => {
                let blobs = &*task.host.stores.blobs;
                let whole = load::value(blobs, &task.session.key, &output.output).await?;
                return Ok(cut(whole).into());
            }
            _ => {}
        }
    }
    Err(gone())
}

async fn text_of(task: &Task, parts: &[Stored<ReplyPart>]) -> Result<CallOutput, ValueError> {
    let blobs = &*task.host.stores.blobs;
    let mut texts = Vec::new();
    for part in parts {
        if let ReplyPart::Text { text, .. } = load::value(blobs, &task.session.key, part).await? {
            texts.push(text);
        }
    }
    Ok(cut(ToolOutput::text(texts.concat())).into())
}

/// What goes into a letter. A longer answer is cut; its session has all of it.
fn cut(output: ToolOutput) -> ToolOutput {
    let (text, is_error) = match output {
        ToolOutput::Text { text } => (text, false),
        ToolOutput::ErrorText { text } => (text, true),
        other => return other,
    };
    if text.len() <= TEXT_BYTES_MAX {
        return of_text(text, is_error);
    }
    let head = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX));
    let missing = text.len() - head.map_or(0, str::len);
    let head = head.unwrap_or_default();
    of_text(
        format!("{head}\n[... {missing} more bytes left out ...]"),
        is_error,
    )
}

fn of_text(text: String, is_error: bool) -> ToolOutput {
    if is_error {
        ToolOutput::error(text)
    } else {
        ToolOutput::text(text)
    }
}
