//! Followers of logs within one process.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::SessionKey;
use tokio::sync::watch;

use super::lock;

/// Entries below which nobody looks for abandoned ones.
const SWEEP_MIN: usize = 64;

/// Signals to the followers of each session. Signals that come while a follower is busy are one.
#[derive(Debug, Default)]
pub struct Signals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionKey, watch::Sender<()>>,
    sweep_at: usize,
}

impl Signals {
    /// Signals from now on, the first at once.
    pub fn follow(&self, session: &SessionKey) -> BoxStream<'static, ()> {
        let mut state = lock(&self.state);
        state.sweep();
        let mut receiver = match state.sessions.get(session) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(());
                state.sessions.insert(session.clone(), sender);
                receiver
            }
        };
        drop(state);
        receiver.mark_changed();
        stream::unfold(receiver, |mut receiver| async {
            receiver.changed().await.ok()?;
            Some(((), receiver))
        })
        .boxed()
    }

    /// Something is new in this session.
    pub fn signal(&self, session: &SessionKey) {
        let mut state = lock(&self.state);
        let abandoned = state
            .sessions
            .get(session)
            .is_some_and(|sender| sender.send(()).is_err());
        if abandoned {
            state.sessions.remove(session);
        }
    }
}

impl State {
    /// Drops abandoned entries whenever as many were added as were left the last time.
    fn sweep(&mut self) {
        if self.sessions.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sessions.retain(|_, sender| !sender.is_closed());
            self.sweep_at = self.sessions.len().saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use steadfast_core::id::{SessionId, TenantId};

    use super::*;

    fn session(name: &str) -> SessionKey {
        SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new(name).unwrap(),
        }
    }

    #[tokio::test]
    async fn signals_come_at_once_then_only_for_news_of_the_session() {
        let signals = Signals::default();
        let mut follower = signals.follow(&session("a"));
        assert_eq!(follower.next().now_or_never(), Some(Some(())));
        assert_eq!(follower.next().now_or_never(), None);
        signals.signal(&session("b"));
        assert_eq!(follower.next().now_or_never(), None);
        signals.signal(&session("a"));
        signals.signal(&session("a"));
        assert_eq!(follower.next().now_or_never(), Some(Some(())));
        assert_eq!(follower.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn abandoned_sessions_are_forgotten() {
        let signals = Signals::default();
        let kept = signals.follow(&session("kept"));
        for n in 0..10 * SWEEP_MIN {
            drop(signals.follow(&session(&n.to_string())));
        }
        assert!(lock(&signals.state).sessions.len() <= SWEEP_MIN);
        assert!(lock(&signals.state).sessions.contains_key(&session("kept")));
        drop(kept);
        signals.signal(&session("kept"));
        assert!(!lock(&signals.state).sessions.contains_key(&session("kept")));
    }
}
