//! The state of a session: the fold of its log.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Call;
use crate::child::ParentCall;
use crate::command::MessageOptions;
use crate::content::{Content, Usage};
use crate::effect::Wake;
use crate::event::{Notice, TurnOutcome};
use crate::id::{AgentName, CallId, Epoch, MessageId, NodeId, Seq, SessionKey, Timestamp, TurnId};
use crate::input::Policy;
use crate::offered::OfferedTools;
use crate::receipt::Receipts;
use crate::transcript::Transcript;

/// One session. Cloning is cheap: what grows is shared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub key: SessionKey,
    /// Number of the last event.
    pub seq: Seq,
    /// Ownership generation.
    pub epoch: Epoch,
    /// Time of the last entry.
    pub at: Timestamp,
    /// Who owns it.
    pub ownership: Ownership,
    /// Whether it exists.
    pub existence: Existence,
    /// Limits in force.
    pub policy: Policy,
    /// The turn that runs or waits.
    pub turn: Option<Turn>,
    /// Messages that wait, in the order in which they run.
    pub queue: Vector<Arc<QueuedMessage>>,
    /// What the model is shown.
    pub transcript: Transcript,
    /// A compaction that is wanted.
    pub compaction: Option<Compaction>,
    /// Compactions so far.
    pub compactions: u32,
    /// Answered commands and the state of messages.
    pub receipts: Receipts,
    /// Calls settled without an outcome, whose answer may still come.
    pub in_doubt: OrdMap<CallId, String>,
    /// Answers to approvals; `None`: over without an answer.
    pub approvals: OrdMap<CallId, Option<bool>>,
    /// What must still reach the outside, by number.
    pub outbox: OrdMap<u64, Notice>,
    /// Notices so far.
    pub notices: u64,
    /// What all model calls cost.
    pub usage: Usage,
    /// The last turn that ended.
    pub last_turn: Option<EndedTurn>,
    /// Tools from elsewhere that the model was last offered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offered: Arc<OfferedTools>,
    /// Parts of the log that no longer count, in order.
    #[serde(default, skip_serializing_if = "Vector::is_empty")]
    pub lost: Vector<LostPart>,
}

fn is_default(offered: &Arc<OfferedTools>) -> bool {
    offered.is_empty()
}

/// A part of the log that was given up when it was repaired. What of it can be read is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPart {
    /// Number of the last event before it.
    pub after: Seq,
    /// Number of the event that says so, the first that counts again.
    pub before: Seq,
}

/// Who owns a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Ownership {
    /// Nobody ever did.
    Never,
    /// This node does, or did when it died.
    Owned {
        /// Which.
        node: NodeId,
    },
    /// The last owner let go.
    Released {
        /// When to look again.
        wake: Wake,
    },
}

/// Whether a session exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Existence {
    /// Not made yet, or removed.
    Absent,
    /// It does.
    Open(Profile),
    /// It is being removed.
    Deleting(Profile),
}

/// What was said when the session was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Whose agent answers.
    pub agent: AgentName,
    /// The application's own data.
    pub metadata: Arc<Value>,
    /// For listing.
    pub tags: Arc<Vec<String>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Where its transcript was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(SessionKey, Seq)>,
    /// The call that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<ParentCall>>,
}

/// A message that waits for its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// The turn it will be.
    pub turn: TurnId,
    /// Its id.
    pub message: MessageId,
    /// What it says.
    pub content: Arc<Content>,
    /// How it is handled.
    pub options: Arc<MessageOptions>,
}

/// The turn that runs or waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The message that asked for it.
    pub message: MessageId,
    /// How it is handled.
    pub options: Arc<MessageOptions>,
    /// When it began.
    pub started_at: Timestamp,
    /// Model calls so far.
    pub step: u32,
    /// What it does now.
    pub phase: TurnPhase,
    /// Calls of the open step, in the order asked. Each by itself: the vector moves many at once.
    pub calls: Vector<Arc<Call>>,
    /// Calls of the turn so far.
    pub calls_total: u64,
    /// What its model calls cost.
    pub usage: Usage,
    /// Crashes since the last settled call.
    pub crashes_in_row: u32,
    /// Crashes of the turn.
    pub crashes_in_turn: u32,
    /// Nothing of the turn runs before this.
    pub hold_until: Option<Timestamp>,
    /// Its history did not fit, or its compaction failed: not compacted again by itself.
    pub compaction_tried: bool,
    /// Answers that did not fit the schema asked for.
    #[serde(default)]
    pub answers_refused: u32,
    /// Messages that joined it.
    pub joined: Vector<MessageId>,
}

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnPhase {
    /// Between steps: the next decision starts a model call or ends the turn.
    Ready,
    /// A model call runs.
    Calling {
        /// Which attempt.
        attempt: u32,
    },
    /// A model call failed and waits for its next attempt.
    Backoff {
        /// Which attempt failed.
        attempt: u32,
        /// When the next starts.
        retry_at: Timestamp,
    },
    /// The calls of the step are open.
    Tools,
    /// The model answered without asking for a call.
    Answered {
        /// Why it stopped.
        finish: crate::content::Finish,
    },
}

/// A wanted summary of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Its number in the session, from 1.
    pub number: u32,
    /// Attempt, from 1.
    pub attempt: u32,
    /// It stands for all up to this event.
    pub through: Seq,
    /// When the next attempt starts; `None`: it runs.
    pub retry_at: Option<Timestamp>,
}

/// The last turn that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTurn {
    /// Its id.
    pub id: TurnId,
    /// The message that asked for it.
    pub message: MessageId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// When.
    pub at: Timestamp,
}

impl Session {
    /// A session of which no event is known.
    pub fn new(key: SessionKey) -> Self {
        Self {
            key,
            seq: Seq(0),
            epoch: Epoch(0),
            at: Timestamp(0),
            ownership: Ownership::Never,
            existence: Existence::Absent,
            policy: Policy::default(),
            turn: None,
            queue: Vector::new(),
            transcript: Transcript::default(),
            compaction: None,
            compactions: 0,
            receipts: Receipts::default(),
            in_doubt: OrdMap::new(),
            approvals: OrdMap::new(),
            outbox: OrdMap::new(),
            notices: 0,
            usage: Usage::default(),
            last_turn: None,
            offered: Arc::default(),
            lost: Vector::new(),
        }
    }

    /// What was said when it was made, if it exists.
    pub fn profile(&self) -> Option<&Profile> {
        match &self.existence {
            Existence::Absent => None,
            Existence::Open(profile) | Existence::Deleting(profile) => Some(profile),
        }
    }

    /// The part of the log that no longer counts and holds this event, if one does.
    pub fn lost_part(&self, seq: Seq) -> Option<LostPart> {
        let mut parts = self.lost.iter();
        parts
            .find(|part| part.after < seq && seq < part.before)
            .copied()
    }

    /// An open call of the running turn.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        let mut calls = self.turn.as_ref()?.calls.iter();
        calls.find(|call| call.id == id).map(Arc::as_ref)
    }

    /// Whether nobody owns it.
    pub fn is_unowned(&self) -> bool {
        match self.ownership {
            Ownership::Never | Ownership::Released { .. } => true,
            Ownership::Owned { .. } => false,
        }
    }
}
