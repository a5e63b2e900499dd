//! Taking a session over.

use std::time::Duration;

use steadfast_core::effect::Wake;
use steadfast_core::id::{AgentName, Epoch, Timestamp};
use steadfast_core::input::{Activate, Input};
use steadfast_core::session::{Ownership, Session};
use steadfast_core::wake;
use steadfast_protocol::record::Cause;
use tokio::time::Instant;

use super::{Driver, Stance};
use crate::options::Options;
use crate::triage;

/// Whether a session that nobody here owns needs an owner, though nobody asks anything of it.
fn needs_owner(session: &Session, now: Timestamp, options: &Options) -> bool {
    match &session.ownership {
        Ownership::Never => false,
        // Its owner is gone, or it would not be looked at.
        Ownership::Owned { .. } => true,
        // What it waits for may have changed with the release of this program: asked anew.
        Ownership::Released { .. } => match wake(session) {
            Wake::Now => true,
            Wake::At(at) => options.is_due_soon(session, at, now),
            Wake::Never => false,
        },
    }
}

impl Driver {
    /// Decides to own the session; what follows waits for its Record, and nothing starts before.
    /// `agent` is whose session it will be when there is none yet.
    pub(super) fn own(&mut self, agent: Option<&AgentName>, now: Timestamp) {
        let session = self.journal.decided();
        let name = session.profile().map(|profile| &profile.agent).or(agent);
        let agent = name.and_then(|name| self.host.agent(name)).cloned();
        let policy = match &agent {
            Some(agent) => agent.policy.clone(),
            None => session.policy.clone(),
        };
        // Where acknowledged Records may be lost, no epoch comes twice all the same.
        let epoch_min = if self.host.options.epoch_from_clock {
            Epoch(now.0 / 1_000)
        } else {
            Epoch(0)
        };
        let activate = Activate {
            node: self.host.node.clone(),
            epoch_min,
            policy,
            open_calls: triage::open_calls(agent.as_deref(), session),
        };
        self.journal
            .decide(&Input::Activate(activate), Cause::Activate, now);
        let epoch = self.journal.decided().epoch;
        self.stance = Stance::Owning { epoch };
        self.seat.takes_over(true);
        self.owned_since = Some(Instant::now());
        tracing::debug!(session = %self.seat.key, %epoch, "session taken over");
        self.purge_deleted();
    }

    /// Takes the decision to own back: nothing else was decided, so nothing is written.
    pub(super) fn disown(&mut self) {
        self.journal.forget();
        self.stance = Stance::Looking;
        self.seat.takes_over(false);
    }

    /// Somebody thinks that the session may need an owner. `Err`: it is not made sure that it is
    /// found again when it does.
    pub(super) async fn woken(&mut self, timer: Option<Epoch>) -> Result<(), String> {
        if self.stance != Stance::Looking {
            return Ok(());
        }
        let session = self.journal.committed();
        // A timer that came proves its time, whatever the clock here says.
        let time = match session.ownership {
            Ownership::Released { wake: Wake::At(at) } if timer == Some(session.epoch) => Some(at),
            _ => None,
        };
        let now = self.host.now().max(time.unwrap_or_default());
        if time.is_some() || needs_owner(session, now, &self.host.options) {
            let agent = session.profile().map(|profile| profile.agent.clone());
            if let Some(agent) = agent
                && self.host.agent(&agent).is_none()
            {
                // Its turns would fail for a slip in the configuration: they wait for its repair.
                return Err(format!("its agent {agent} is not configured here"));
            }
            self.own(None, now);
            return Ok(());
        }
        // A crash between a release and its timer leaves the session in the index, by which it is
        // found and comes here.
        if let Ownership::Released { wake: Wake::At(_) } = session.ownership
            && let Wake::At(at) = wake(session)
        {
            let (key, epoch) = (session.key.clone(), session.epoch);
            let set = self.host.stores.timers.set(&key, epoch, at).await;
            return set.map_err(|error| error.to_string());
        }
        Ok(())
    }

    /// How long this session may be idle in memory.
    pub(super) fn idle_after(&self) -> Duration {
        let options = &self.host.options;
        if self.seat.is_pressed() {
            options.idle_after_pressed
        } else {
            options.idle_after
        }
    }
}
