//! What becomes of the outcomes of effects.

use steadfast_core::event::Event;
use steadfast_core::id::{CallId, Seq};
use steadfast_core::input::Input;
use steadfast_protocol::record::Cause;

use super::{Driver, Stance};
use crate::dispatch::Finished;

impl Driver {
    /// An effect ended.
    pub(super) fn finished(&mut self, finished: Finished) {
        let Finished {
            effect,
            mut input,
            slots,
        } = finished;
        if matches!(self.stance, Stance::Draining { .. })
            && let Some(Input::ModelReplied { triage, .. }) = &mut input
        {
            // Its calls are for the next owner: one that was started here and does not run would be
            // in doubt.
            triage.iter_mut().for_each(|triage| triage.slot = false);
        }
        let Some(input) = input else {
            self.dispatcher.rest(effect);
            return;
        };
        self.count_cut(&input);
        let cause = Cause::Effect { effect };
        let decided = self.journal.decide(&input, cause, self.host.now());
        if decided.events == 0 {
            self.dispatcher.rest(effect);
            return;
        }
        if matches!(input, Input::ToolsListed { .. }) {
            self.dispatcher.renew(effect, self.journal.decided().seq);
        }
        let reserved = match &input {
            Input::SlotReady { call } => slots.into_iter().map(|(_, slot)| (*call, slot)).collect(),
            _ => match self.newest_reply() {
                Some(reply) => slots
                    .into_iter()
                    .map(|(index, slot)| (CallId { index, ..reply }, slot))
                    .collect(),
                None => Vec::new(),
            },
        };
        self.dispatcher.hold_slots(reserved, self.journal.decided());
    }

    /// The first call's id of the model reply that was decided last.
    fn newest_reply(&self) -> Option<CallId> {
        let entry = self.journal.newest()?;
        let decided = self.journal.decided();
        let before = decided.seq.0.saturating_sub(entry.events.len() as u64);
        let position = entry
            .events
            .iter()
            .position(|event| matches!(event, Event::ModelReplied { .. }))?;
        Some(CallId {
            epoch: decided.epoch,
            reply: Seq(before + 1 + position as u64),
            index: 0,
        })
    }
}
