//! Scopes: small worlds, each with a budget for what may go wrong.

use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession, WhenBusy};
use steadfast_core::content::{CallInput, ContentPart, ProposedCall, Stored, ToolOutput};
use steadfast_core::id::{AgentName, CommandId};
use steadfast_core::input::{CallTriage, Durability, Gate, InDoubtPolicy, Place, ReplayRule};

/// What may happen in a world.
#[derive(Debug, Clone)]
pub struct Scope {
    /// For people.
    pub name: &'static str,
    /// Commands that clients send, each at any time, in this order.
    pub commands: Vec<Command>,
    /// A cancel without a turn may be sent, once, at any time.
    pub cancel: bool,
    /// An open approval may be answered, once each: yes or no.
    pub approvals: bool,
    /// Tools that a first reply may ask for; each entry is one possible reply.
    pub replies: Vec<Vec<&'static str>>,
    /// Which effects may run ahead.
    pub durability: Durability,
    /// How often each thing may go wrong.
    pub budget: Budget,
}

/// How often each thing may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Budget {
    /// An owner dies.
    pub crashes: u8,
    /// A living owner is thought dead.
    pub suspicions: u8,
    /// An append lands and its acknowledgement is lost.
    pub lost_acks: u8,
    /// An append seems lost and may land later.
    pub ghosts: u8,
    /// A client sends a command again.
    pub duplicates: u8,
    /// A model call fails.
    pub model_failures: u8,
    /// A tool gives no outcome.
    pub unknowns: u8,
    /// A request that seems lost arrives late.
    pub late: u8,
    /// A job is delivered again.
    pub redeliveries: u8,
    /// A command goes to the mailbox although its owner could be asked.
    pub mails: u8,
}

/// A message that makes its session.
pub fn message(id: &str, when_busy: WhenBusy) -> Command {
    let text = ContentPart::Text {
        text: id.to_owned(),
    };
    Command {
        id: command_id(id),
        body: CommandBody::Submit {
            content: vec![Stored::Inline(text)],
            options: MessageOptions {
                when_busy,
                ..MessageOptions::default()
            },
            new: AgentName::new("agent").ok().map(|agent| NewSession {
                agent,
                metadata: serde_json::Value::Null,
                tags: Vec::new(),
            }),
        },
    }
}

/// A command id; falls back to a fixed one, since ids in this crate are literals.
pub fn command_id(text: &str) -> CommandId {
    CommandId::new(text).unwrap_or_else(|_| unreachable!("{text} is no command id"))
}

/// The call of a tool, as a model asks for it.
pub fn proposed(tool: &str, index: usize) -> ProposedCall {
    ProposedCall {
        provider_call_id: format!("p{index}"),
        tool: tool.to_owned(),
        input: Stored::Inline(CallInput::Json(serde_json::json!({ "of": tool }))),
    }
}

/// What the runtime finds out about a tool, by its name.
pub fn triage(tool: &str) -> CallTriage {
    let rule = match tool {
        "safe" => ReplayRule::Safe,
        "keyed" | "remote_keyed" => ReplayRule::Keyed,
        _ => ReplayRule::Never,
    };
    let place = match tool {
        "client" => Place::Client,
        "remote" | "remote_keyed" => Place::Remote,
        _ => Place::Local,
    };
    let gate = match tool {
        "ask" => Gate::Approval {
            expires_in_ms: None,
        },
        "bad" => Gate::Refused {
            output: ToolOutput::error("no such tool"),
        },
        _ => Gate::Open,
    };
    CallTriage {
        gate,
        rule,
        place,
        in_doubt: if tool == "wait" {
            InDoubtPolicy::Wait
        } else {
            InDoubtPolicy::TellModel
        },
        has_check: tool == "check",
        exclusive: tool == "exclusive",
        deadline_ms: 600_000,
        attempts_max: 2,
        slot: tool != "slotless",
        agent: None,
    }
}

/// The scopes searched in the normal tests.
pub fn all() -> Vec<Scope> {
    let mut scopes = vec![takeover()];
    scopes.extend(of_owners());
    scopes.extend(of_clients());
    scopes
}

fn takeover() -> Scope {
    Scope {
        name: "takeover",
        commands: vec![message("m1", WhenBusy::Queue)],
        cancel: false,
        approvals: false,
        replies: vec![vec!["never"], vec!["safe", "keyed"]],
        durability: Durability::On,
        budget: Budget {
            crashes: 1,
            suspicions: 1,
            lost_acks: 1,
            ..Budget::default()
        },
    }
}

/// What befalls owners, models and tools.
fn of_owners() -> [Scope; 5] {
    [
        Scope {
            name: "ghosts",
            replies: vec![vec!["never"]],
            budget: Budget {
                crashes: 1,
                ghosts: 1,
                suspicions: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "checks",
            replies: vec![vec!["check", "slotless"]],
            durability: Durability::Strict,
            budget: Budget {
                crashes: 2,
                unknowns: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "late",
            replies: vec![vec!["check"]],
            durability: Durability::Strict,
            budget: Budget {
                crashes: 1,
                suspicions: 1,
                unknowns: 1,
                late: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "remote",
            cancel: true,
            replies: vec![vec!["remote"]],
            budget: Budget {
                crashes: 1,
                redeliveries: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "model",
            replies: vec![vec!["wait"], vec!["bad", "safe"]],
            budget: Budget {
                crashes: 1,
                model_failures: 1,
                unknowns: 1,
                ..Budget::default()
            },
            ..takeover()
        },
    ]
}

/// What clients do meanwhile.
fn of_clients() -> [Scope; 3] {
    [
        Scope {
            name: "cancel",
            cancel: true,
            replies: vec![vec!["never", "safe"]],
            budget: Budget {
                crashes: 1,
                duplicates: 1,
                mails: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "people",
            approvals: true,
            commands: vec![
                message("m1", WhenBusy::Queue),
                message("m2", WhenBusy::Steer),
            ],
            replies: vec![vec!["ask", "client"]],
            budget: Budget {
                crashes: 1,
                mails: 1,
                ..Budget::default()
            },
            ..takeover()
        },
        Scope {
            name: "mail",
            commands: vec![
                message("m1", WhenBusy::Queue),
                message("m2", WhenBusy::Interrupt),
            ],
            replies: vec![vec!["exclusive", "keyed"]],
            budget: Budget {
                crashes: 1,
                mails: 2,
                duplicates: 1,
                ..Budget::default()
            },
            ..takeover()
        },
    ]
}
