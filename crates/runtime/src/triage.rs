//! What is found out about a call before it is decided about, and the slots that are reserved.

use std::sync::Arc;

use steadfast_core::call::CallState;
use steadfast_core::content::{CallInput, ModelReply, Stored, ToolOutput};
use steadfast_core::id::CallId;
use steadfast_core::input::{CallTriage, Gate, Place, RuleToday};
use steadfast_core::session::{Session, Turn};
use steadfast_tools::catalog::Tool;

use crate::agent::Agent;
use crate::dispatch::offer;
use crate::pools::Pools;
pub(crate) use crate::pools::Slot;

/// The triage of one reply: one entry for each of its calls.
pub(crate) struct Triaged {
    pub(crate) triage: Vec<CallTriage>,
    /// By index of the call.
    pub(crate) slots: Vec<(u16, Slot)>,
}

/// Triages all calls of a reply, before any of it is moved into blobs.
pub(crate) fn reply(
    pools: &Pools,
    agent: &Agent,
    session: &Session,
    turn: &Turn,
    reply: &ModelReply,
) -> Triaged {
    let mut triaged = Triaged {
        triage: Vec::with_capacity(reply.calls.len()),
        slots: Vec::new(),
    };
    if reply.calls.is_empty() {
        return triaged;
    }
    let filter = agent.turn_filter(turn);
    for (index, call) in (0_u16..).zip(&reply.calls) {
        let mut triage = match &call.input {
            Stored::Inline(input) => agent.catalog.triage(&call.tool, input, &filter),
            // A provider's reply comes whole: what is not here cannot be checked.
            Stored::Blob(_) => agent.catalog.triage(&call.tool, &unread(), &filter),
        };
        refuse_changed(agent, session, &call.tool, &mut triage);
        let slot = reserve(pools, agent.catalog.get(&call.tool).as_ref(), &mut triage);
        triaged.slots.extend(slot.map(|slot| (index, slot)));
        triaged.triage.push(triage);
    }
    triaged
}

/// Triages a call to which a person has just agreed.
pub(crate) fn agreed(
    pools: &Pools,
    agent: &Agent,
    session: &Session,
    turn: &Turn,
    tool: &str,
    input: &CallInput,
) -> (CallTriage, Option<Slot>) {
    let filter = agent.turn_filter(turn);
    let mut triage = agent.catalog.triage_agreed(tool, input, &filter);
    refuse_changed(agent, session, tool, &mut triage);
    let slot = reserve(pools, agent.catalog.get(tool).as_ref(), &mut triage);
    (triage, slot)
}

/// A call of a tool from elsewhere that is not the one which the model was offered does not run: the
/// model is told, and shown the tool as it is now.
fn refuse_changed(agent: &Agent, session: &Session, name: &str, triage: &mut CallTriage) {
    let Some(tool) = agent
        .catalog
        .get(name)
        .filter(|tool| tool.spec.mcp.is_some())
    else {
        return;
    };
    let refused = matches!(triage.gate, Gate::Refused { .. });
    if !refused && session.offered.tools.get(name) != Some(&offer::digest(&tool)) {
        let words = "nothing was done: this tool has changed since it was offered to you; look at \
                     what it is now before you call it again";
        triage.gate = Gate::Refused {
            output: ToolOutput::error(words),
        };
    }
}

fn unread() -> CallInput {
    CallInput::Malformed {
        text: String::new(),
        error: "the arguments were not part of the reply".into(),
    }
}

/// Reserves a slot for a call that may start at once.
fn reserve(pools: &Pools, tool: Option<&Arc<Tool>>, triage: &mut CallTriage) -> Option<Slot> {
    if triage.gate != Gate::Open {
        return None;
    }
    match triage.place {
        Place::Local => {
            let slot = pools.try_reserve(tool?);
            triage.slot = slot.is_some();
            slot
        }
        // Its pool is not here.
        Place::Remote => {
            triage.slot = true;
            None
        }
        Place::Client => None,
    }
}

/// Today's rule of each open call whose tool is still configured. Of an agent that is not
/// configured here nothing is known, so its calls keep the rules they were recorded with.
pub(crate) fn open_calls(agent: Option<&Agent>, session: &Session) -> Vec<(CallId, RuleToday)> {
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    calls
        .filter(|call| !call.is_settled())
        .filter_map(|call| {
            let recorded = RuleToday {
                rule: call.triage.rule,
                has_check: call.triage.has_check,
            };
            let today = match agent {
                Some(agent) => agent.catalog.rule_today(&call.tool, recorded)?,
                None => recorded,
            };
            Some((call.id, today))
        })
        .collect()
}

/// Whether a call holds a slot of its tool's pool.
pub(crate) fn holds_slot(session: &Session, call: CallId) -> bool {
    session
        .call(call)
        .is_some_and(|call| matches!(call.state, CallState::Started { .. }))
}
