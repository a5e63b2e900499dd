//! Making a session: from nothing, or from a copy of another's transcript.

use super::{Answer, Asked, Draft};
use crate::command::{ForkOrigin, NewSession};
use crate::event::{Event, Rejection, Verdict};
use crate::session::{Existence, Profile};

pub(super) fn create(draft: &mut Draft, asked: &Asked<'_>, new: &NewSession) -> Answer {
    match &draft.session.existence {
        Existence::Open(profile) if is_same(profile, new) => {
            // Nothing to write unless the client holds a receipt.
            if asked.receipted {
                return asked.settle(draft, Verdict::Done);
            }
            Answer {
                verdict: Verdict::Done,
                repeated: true,
            }
        }
        Existence::Open(_) => asked.refuse(draft, Rejection::SessionExists),
        Existence::Absent | Existence::Deleting(_) => {
            draft.emit(Event::SessionCreated { new: new.clone() });
            asked.settle(draft, Verdict::Done)
        }
    }
}

pub(super) fn fork(
    draft: &mut Draft,
    asked: &Asked<'_>,
    new: &NewSession,
    origin: &ForkOrigin,
) -> Answer {
    match draft.session.existence {
        Existence::Open(_) => asked.refuse(draft, Rejection::SessionExists),
        Existence::Absent | Existence::Deleting(_) => {
            draft.emit(Event::SessionCreated { new: new.clone() });
            draft.emit(Event::TranscriptForked {
                origin: origin.clone(),
            });
            asked.settle(draft, Verdict::Done)
        }
    }
}

fn is_same(profile: &Profile, new: &NewSession) -> bool {
    profile.agent == new.agent && *profile.metadata == new.metadata && *profile.tags == new.tags
}
