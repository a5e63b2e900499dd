//! Which letters this node has out, so that they can be given back, and older ones put off.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use steadfast_core::id::SessionKey;
use steadfast_store::mailbox::{Delivery, GIVE_BACK_DELAY_MAX, MailSeq};

use crate::pull::Receipt;

/// Sessions below which nobody looks for letters that are out no more.
const SWEEP_MIN: usize = 1_024;

/// Letters of all sessions that this node has out.
#[derive(Debug)]
pub(crate) struct Handed {
    silence: Duration,
    sessions: BTreeMap<SessionKey, BTreeMap<MailSeq, Out>>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Out {
    /// Where its delivery is answered; `None` once it is.
    receipt: Option<Receipt>,
    /// When it comes to somebody again.
    until: Instant,
}

/// What is done with a letter that was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is handed out.
    Take,
    /// A newer one of the session stands for it.
    PutOff,
}

impl Handed {
    pub(crate) fn new(silence: Duration) -> Self {
        Self {
            silence,
            sessions: BTreeMap::new(),
            sweep_at: SWEEP_MIN,
        }
    }

    /// A letter was delivered to this node.
    pub(crate) fn offer(
        &mut self,
        session: &SessionKey,
        seq: MailSeq,
        receipt: &Receipt,
        now: Instant,
    ) -> Offer {
        self.sweep(now);
        let until = now + self.silence;
        let letters = self.sessions.entry(session.clone()).or_default();
        letters.retain(|_, out| out.until > now);
        if newer_is_out(letters, seq) {
            return Offer::PutOff;
        }
        let receipt = Some(receipt.clone());
        letters.insert(seq, Out { receipt, until });
        Offer::Take
    }

    /// A letter is given back: where that is told, and for how long.
    pub(crate) fn give_back(
        &mut self,
        delivery: &Delivery,
        delay: Duration,
        now: Instant,
    ) -> Option<(Receipt, Duration)> {
        let letters = self.sessions.get_mut(&delivery.session)?;
        letters.retain(|_, out| out.until > now);
        if newer_is_out(letters, delivery.up_to) {
            let receipt = letters.remove(&delivery.up_to)?.receipt?;
            return Some((receipt, GIVE_BACK_DELAY_MAX));
        }
        let out = letters.get_mut(&delivery.up_to)?;
        let receipt = out.receipt.take()?;
        // Whoever gets it then stands for the older ones too.
        out.until = now + delay + self.silence;
        Some((receipt, delay))
    }

    /// The session's letters up to and including `up_to` were removed.
    pub(crate) fn removed(&mut self, session: &SessionKey, up_to: MailSeq) {
        if let Some(letters) = self.sessions.get_mut(session) {
            letters.retain(|seq, _| *seq > up_to);
            if letters.is_empty() {
                self.sessions.remove(session);
            }
        }
    }

    /// Forgets what is out no more whenever as much was added as was left the last time.
    fn sweep(&mut self, now: Instant) {
        if self.sessions.len() >= self.sweep_at {
            self.sessions.retain(|_, letters| {
                letters.retain(|_, out| out.until > now);
                !letters.is_empty()
            });
            self.sweep_at = self.sessions.len().saturating_mul(2).max(SWEEP_MIN);
        }
    }
}

fn newer_is_out(letters: &BTreeMap<MailSeq, Out>, seq: MailSeq) -> bool {
    letters
        .last_key_value()
        .is_some_and(|(newest, _)| *newest > seq)
}
