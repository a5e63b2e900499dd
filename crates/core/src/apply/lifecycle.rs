//! Ownership, existence, answered commands and the outbox.

use std::sync::Arc;

use crate::event::{Event, Verdict};
use crate::receipt::{Progress, Receipt};
use crate::session::{Existence, Ownership, Profile, Session};
use crate::transcript::ItemBody;

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::Activated {
            node,
            epoch,
            policy,
        } => {
            session.ownership = Ownership::Owned { node: node.clone() };
            session.epoch = session.epoch.max(*epoch);
            session.policy = policy.clone();
        }
        Event::Released { wake } => session.ownership = Ownership::Released { wake: *wake },
        Event::SessionCreated { new } => {
            session.existence = Existence::Open(Profile {
                agent: new.agent.clone(),
                metadata: Arc::new(new.metadata.clone()),
                tags: Arc::new(new.tags.clone()),
                created_at: session.at,
                forked_from: None,
                parent: None,
            });
        }
        Event::TranscriptForked { origin } => {
            if let Existence::Open(profile) = &mut session.existence {
                profile.forked_from = Some((origin.from.clone(), origin.at_seq));
            }
            for packed in &origin.transcript {
                session.transcript.push(
                    session.seq,
                    ItemBody::Packed {
                        packed: packed.clone(),
                    },
                );
            }
        }
        Event::DeletionStarted => {
            if let Existence::Open(profile) = &session.existence {
                session.existence = Existence::Deleting(profile.clone());
            }
        }
        Event::SessionDeleted => *session = after_deletion(session),
        Event::CommandSettled {
            command,
            digest,
            verdict,
        } => {
            let progress = match verdict {
                Verdict::Accepted { .. } => Some(Progress::Queued),
                Verdict::Done | Verdict::Rejected { .. } => None,
            };
            let at = session.at;
            let receipt = Receipt {
                digest: *digest,
                verdict: *verdict,
                at,
                progress,
                shown: None,
            };
            session.receipts.insert(command, receipt);
        }
        Event::NoticePosted { number, notice } => {
            session.notices = session.notices.max(*number);
            session.outbox.insert(*number, notice.clone());
        }
        Event::NoticeDelivered { number } | Event::NoticeDropped { number, .. } => {
            session.outbox.remove(number);
        }
        _ => {}
    }
}

/// A session made again under the same id goes on from these numbers, so no id ever repeats.
fn after_deletion(session: &Session) -> Session {
    let mut empty = Session::new(session.key.clone());
    empty.seq = session.seq;
    empty.epoch = session.epoch;
    empty.at = session.at;
    empty.ownership = session.ownership.clone();
    empty.policy = session.policy.clone();
    empty.compactions = session.compactions;
    empty.notices = session.notices;
    empty.lost = session.lost.clone();
    empty
}
