//! Tool messages: what remote workers, in any language, are told and say. JSON, in contrast to
//! everything else that is kept as bytes, so that they need no library of ours.
//!
//! ```text
//!   job:      tool queue --> worker      one attempt of a call, or a question about one
//!   answer:   worker --> mailbox of the session      durable, at least once
//!   progress: worker --> owner of the session        not stored, may be lost
//! ```
//!
//! What a worker does:
//!
//! 1. It says that it is still at it well within the queue's silence, and takes a job out of the
//!    queue only after its answer was acknowledged. Jobs come at least once, also to two workers.
//! 2. A `run` whose `replay` is `never` it claims first: it creates the key `claim` with a value that
//!    no other delivery has, and runs the job only if the key is its own. After a time-out it looks
//!    who has the key, or tries again; of a job that is another's it does nothing, not even answer.
//! 3. It dedupes a `keyed` call by `key`; a `safe` one may run any number of times.
//! 4. After `deadline_at_ms` it starts nothing.
//! 5. It answers `unknown` whenever it cannot be sure that the tool did all or nothing.
//! 6. A result whose answer has more than [`ANSWER_BYTES_MAX`] bytes is not sent: the answer says,
//!    with `is_error`, that it was done and where its result is.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::content::CallOutput;
use steadfast_core::id::{AgentName, CallId, Epoch, SessionId, SessionKey, TenantId, TurnId};
use steadfast_core::input::ReplayRule;

use crate::codec::{DecodeError, EncodeError};
use crate::mail::LETTER_BYTES_MAX;

/// The version of the messages.
pub const VERSION: u32 = 1;
/// An answer, at most, in bytes of its JSON. A worker tells of a larger result instead of sending
/// it.
pub const ANSWER_BYTES_MAX: usize = LETTER_BYTES_MAX;
/// A word of progress, at most.
pub const PROGRESS_BYTES_MAX: usize = 64 * 1024;

/// What is asked about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kind {
    /// Run this attempt.
    Run,
    /// Say whether this attempt, which was a `run` before, happened. Whoever says that it did not
    /// keeps the job's fence with its key, and refuses each `run` whose fence is not above it from
    /// then on, with `unknown`.
    Check,
}

/// A job. Fields may be added: a worker ignores those that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// Version of this format: 1.
    pub version: u32,
    /// What is asked.
    pub kind: Kind,
    /// Tenant of the session.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// Agent of the session.
    pub agent: AgentName,
    /// Turn of the session.
    pub turn: TurnId,
    /// Name of the tool.
    pub tool: String,
    /// The call: goes back in answers and progress.
    pub call: CallId,
    /// What the tool dedupes by, the same at every attempt: `<tenant>/<session>/<call>`.
    pub key: String,
    /// Attempt, from 1: goes back in answers.
    pub attempt: u32,
    /// Ownership generation of the session.
    pub epoch: Epoch,
    /// A text that sorts higher at each attempt of the call.
    #[serde(default)]
    pub fence: String,
    /// What the tool promises about repetition.
    pub replay: ReplayRule,
    /// Arguments, checked against the tool's input schema.
    pub input: Value,
    /// When the answer must be there, in milliseconds since the Unix epoch.
    pub deadline_at_ms: u64,
    /// Reason of a person's yes, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
    /// The message's own metadata, as its client sent it.
    #[serde(default)]
    pub metadata: Value,
    /// W3C `traceparent` of the call, if tracing is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The key that the worker creates in the claims bucket before it runs this; only of a `run`
    /// with `replay` `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Where the worker's words go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Addresses>,
}

impl Job {
    /// The session that asks.
    pub fn session_key(&self) -> SessionKey {
        SessionKey {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
        }
    }
}

/// Where a worker that is no part of this program sends what it has to say about a call, and where
/// it listens: NATS subjects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Addresses {
    /// Its answer, by a JetStream publish that is acknowledged.
    pub answers: String,
    /// Its progress, by a plain publish.
    pub progress: String,
    /// A message comes here when the call is not wanted any more; its content means nothing.
    pub cancels: String,
    /// Name of the key-value bucket of claims.
    pub claims: String,
}

/// What a worker says about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Version of this format: 1.
    pub version: u32,
    /// Of what kind the job was.
    pub kind: Kind,
    /// The job's call.
    pub call: CallId,
    /// The job's attempt.
    pub attempt: u32,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Outcome {
    /// It ran and came to its end, well or not. The answer to a `check`: it happened.
    Done {
        /// The result: a string is text for the model, anything else is JSON.
        #[serde(default)]
        output: Value,
        /// The tool failed in a way that the model should know of.
        #[serde(default)]
        is_error: bool,
        /// Edits of the session's documents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        documents: Vec<Value>,
    },
    /// The same, as this program's own workers say it: an output as the log keeps it.
    Finished {
        /// The result; a large one stands in the session's blobs.
        output: CallOutput,
    },
    /// It certainly did nothing; a `safe` or `keyed` call is tried again.
    Retry {
        /// Why, shown when no attempt is left.
        #[serde(default)]
        detail: String,
        /// When to come again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// Only of a `check`: it did not happen, and from now on this attempt is refused.
    NotDone {},
    /// Nobody knows whether it happened.
    Unknown {
        /// Why, for the log.
        #[serde(default)]
        detail: String,
    },
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// Version of this format: 1.
    pub version: u32,
    /// The job's call.
    pub call: CallId,
    /// A preliminary result: each takes the place of the one before.
    pub output: Value,
}

/// What of an answer says whose answer it is.
#[derive(Deserialize)]
struct Head {
    kind: Kind,
    call: CallId,
    attempt: u32,
}

/// Bytes of a job.
pub fn encode_job(job: &Job) -> Result<Vec<u8>, EncodeError> {
    json("job", job, usize::MAX)
}

/// Reads a job.
pub fn decode_job(bytes: &[u8]) -> Result<Job, DecodeError> {
    let job: Job = serde_json::from_slice(bytes).map_err(|error| corrupt("job", &error))?;
    if job.version != VERSION {
        let detail = format!("version {}, this release knows {VERSION}", job.version);
        return Err(corrupt("job", &detail));
    }
    Ok(job)
}

/// Bytes of an answer.
pub fn encode_answer(answer: &Answer) -> Result<Vec<u8>, EncodeError> {
    json("answer", answer, ANSWER_BYTES_MAX)
}

/// Reads an answer. One that says whose it is, but not in words that are understood, means that
/// nobody knows what happened: it must neither be lost nor hold up its session.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, DecodeError> {
    const WHAT: &str = "answer";
    if bytes.len() > ANSWER_BYTES_MAX {
        let detail = format!("{} bytes, {ANSWER_BYTES_MAX} are allowed", bytes.len());
        return Err(corrupt(WHAT, &detail));
    }
    let detail = match serde_json::from_slice::<Answer>(bytes) {
        Ok(answer) if answer.version == VERSION => return Ok(answer),
        Ok(answer) => format!("version {}, this release knows {VERSION}", answer.version),
        Err(error) => error.to_string(),
    };
    let head: Head = serde_json::from_slice(bytes).map_err(|error| corrupt(WHAT, &error))?;
    Ok(Answer {
        version: VERSION,
        kind: head.kind,
        call: head.call,
        attempt: head.attempt,
        outcome: Outcome::Unknown {
            detail: format!("the worker's answer was not understood: {detail}"),
        },
    })
}

/// Bytes of a word of progress.
pub fn encode_progress(progress: &Progress) -> Result<Vec<u8>, EncodeError> {
    json("progress", progress, PROGRESS_BYTES_MAX)
}

/// Reads a word of progress.
pub fn decode_progress(bytes: &[u8]) -> Result<Progress, DecodeError> {
    if bytes.len() > PROGRESS_BYTES_MAX {
        let detail = format!("{} bytes, {PROGRESS_BYTES_MAX} are allowed", bytes.len());
        return Err(corrupt("progress", &detail));
    }
    serde_json::from_slice(bytes).map_err(|error| corrupt("progress", &error))
}

fn json<T: Serialize>(
    what: &'static str,
    value: &T,
    bytes_max: usize,
) -> Result<Vec<u8>, EncodeError> {
    let bytes = serde_json::to_vec(value).map_err(|error| EncodeError::Unwritable {
        what,
        detail: error.to_string(),
    })?;
    if bytes.len() > bytes_max {
        return Err(EncodeError::TooLarge {
            what,
            bytes: bytes.len(),
            bytes_max,
        });
    }
    Ok(bytes)
}

fn corrupt(what: &'static str, detail: &impl ToString) -> DecodeError {
    DecodeError::Corrupt {
        what,
        detail: detail.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(outcome: Outcome) -> Answer {
        Answer {
            version: VERSION,
            kind: Kind::Run,
            call: "3-17-2".parse().unwrap(),
            attempt: 1,
            outcome,
        }
    }

    fn read(text: &str) -> Result<Answer, DecodeError> {
        decode_answer(text.as_bytes())
    }

    #[test]
    fn the_shortest_answers_are_understood() {
        let done = |output, is_error| Outcome::Done {
            output,
            is_error,
            documents: Vec::new(),
        };
        let cases = [
            (r#"{"type":"done","output":"a"}"#, done(json!("a"), false)),
            (
                r#"{"type":"done","output":{"a":1},"is_error":true}"#,
                done(json!({ "a": 1 }), true),
            ),
            (
                r#"{"type":"retry"}"#,
                Outcome::Retry {
                    detail: String::new(),
                    retry_after_ms: None,
                },
            ),
            (r#"{"type":"not_done"}"#, Outcome::NotDone {}),
            (
                r#"{"type":"unknown"}"#,
                Outcome::Unknown {
                    detail: String::new(),
                },
            ),
        ];
        for (text, outcome) in cases {
            let text = format!(
                r#"{{"version":1,"kind":"run","call":"3-17-2","attempt":1,"outcome":{text}}}"#
            );
            assert_eq!(read(&text), Ok(answer(outcome)), "{text}");
        }
    }

    #[test]
    fn an_answer_in_other_words_is_an_unknown_outcome() {
        let cases = [
            r#"{"version":2,"kind":"run","call":"3-17-2","attempt":1,"outcome":{"type":"not_done"}}"#,
            r#"{"version":1,"kind":"run","call":"3-17-2","attempt":1,"outcome":{"type":"fine"}}"#,
            r#"{"version":1,"kind":"run","call":"3-17-2","attempt":1,"outcome":{"type":"done","outptu":1}}"#,
            r#"{"version":1,"kind":"run","call":"3-17-2","attempt":1,"result":1}"#,
            r#"{"kind":"run","call":"3-17-2","attempt":1}"#,
        ];
        for text in cases {
            let outcome = read(text).unwrap().outcome;
            assert!(
                matches!(outcome, Outcome::Unknown { .. }),
                "{text}: {outcome:?}"
            );
        }
    }

    #[test]
    fn what_says_not_whose_it_is_is_corrupt() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let long = " ".repeat(ANSWER_BYTES_MAX + 1);
        for text in ["", "{}", "[]", "{\"call\":\"3-17-2\"}", &deep, &long] {
            assert!(read(text).is_err(), "{} bytes were understood", text.len());
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let output = CallOutput::from(steadfast_core::content::ToolOutput::text("a"));
        let value = answer(Outcome::Finished { output });
        assert_eq!(decode_answer(&encode_answer(&value).unwrap()), Ok(value));
        let progress = Progress {
            version: VERSION,
            call: "3-17-2".parse().unwrap(),
            output: json!({ "percent": 50 }),
        };
        let bytes = encode_progress(&progress).unwrap();
        assert_eq!(decode_progress(&bytes), Ok(progress));
    }
}
