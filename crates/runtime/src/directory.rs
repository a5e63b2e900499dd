//! What lists show of a session: eventual, and beside the work.

use steadfast_core::event::TurnOutcome;
use steadfast_core::id::SessionKey;
use steadfast_core::session::Session;
use steadfast_core::waiting;
use steadfast_core::why::Waiting;
use steadfast_store::directory::{DirectoryEntry, Status};

use crate::host::Host;
use crate::open;

/// The entry of a session that exists.
pub(crate) fn entry(session: &Session) -> Option<DirectoryEntry> {
    let profile = session.profile()?;
    let waiting = waiting(session);
    let approvals = waiting.iter().filter_map(|waiting| match waiting {
        Waiting::Approval { approval, .. } => Some(approval.to_string()),
        Waiting::ClientResult { .. } | Waiting::Input { .. } | Waiting::InDoubt { .. } => None,
    });
    let status = if session.turn.is_none() && session.queue.is_empty() {
        Status::Idle
    } else if waiting.is_empty() {
        Status::Running
    } else {
        Status::Waiting
    };
    Some(DirectoryEntry {
        agent: profile.agent.clone(),
        tags: profile.tags.to_vec(),
        status,
        last_turn: session
            .last_turn
            .as_ref()
            .map(|turn| word(&turn.outcome).into()),
        approvals: approvals.collect(),
        created_at: profile.created_at,
        updated_at: session.at,
        seq: session.seq,
    })
}

fn word(outcome: &TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Completed { .. } => "completed",
        TurnOutcome::Failed { .. } => "failed",
        TurnOutcome::Cancelled => "cancelled",
        TurnOutcome::Superseded => "superseded",
        TurnOutcome::Rejected => "rejected",
    }
}

/// Whether a list that shows `shown` need not be told `now`: that its owner let go is no change of
/// the session.
pub(crate) fn tells(shown: &DirectoryEntry, now: &DirectoryEntry) -> bool {
    let as_of_then = DirectoryEntry {
        updated_at: shown.updated_at,
        seq: shown.seq,
        ..now.clone()
    };
    *shown == as_of_then
}

/// Writes an entry, and says whether it is; one that is not is shown with the next change.
pub(crate) async fn put(host: &Host, key: &SessionKey, entry: DirectoryEntry) -> bool {
    let written = host.stores.directory.put(key, entry).await;
    if let Err(error) = &written {
        tracing::debug!(session = %key, %error, "directory entry not written");
    }
    written.is_ok()
}

/// Shows that a session's log cannot be right, if it can be said whose session it is.
pub(crate) async fn quarantine(host: &Host, key: &SessionKey) {
    let batch = host.options.read_batch_records;
    let readable = open::readable(&host.stores, key, batch).await;
    let Some((session, last_seq)) = readable else {
        return;
    };
    if let Some(entry) = entry(&session) {
        let entry = DirectoryEntry {
            status: Status::Quarantined,
            seq: last_seq,
            ..entry
        };
        put(host, key, entry).await;
    }
}
