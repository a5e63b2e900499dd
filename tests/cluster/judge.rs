//! What must hold of a round.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use serde_json::json;
use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::event::Event;
use steadfast_core::id::{CallId, CommandId, SessionId, SessionKey, TenantId};
use steadfast_core::session::Ownership;
use steadfast_protocol::record;
use steadfast_sim::invariants::{History, Seen};
use steadfast_store::Stores;
use steadfast_store::log::{ReadFrom, Tail};
use steadfast_tests::events::Frame;
use steadfast_tests::joined;

use super::cluster::{Cluster, Effect};
use super::load::{Lived, LivedSession};
use super::scenario::Befell;

/// Records read at once.
const PAGE: usize = 256;

/// What is wrong with a round.
pub(super) async fn judge(cluster: &Cluster, befell: &Befell, lived: Lived) -> Vec<String> {
    let Lived {
        sessions,
        odd: mut failures,
        until,
    } = lived;
    let stores = cluster.store().await.stores();
    let mut effects: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    for effect in cluster.effects() {
        let session = effect.key.split('/').nth(1).unwrap_or_default().to_owned();
        effects.entry(session).or_default().push(effect);
    }
    for session in sessions {
        let effects = effects.remove(&session.name).unwrap_or_default();
        let found = of_session(&stores, befell, &session, &effects, until).await;
        failures.extend(found);
    }
    failures
}

async fn of_session(
    stores: &Stores,
    befell: &Befell,
    session: &LivedSession,
    effects: &[Effect],
    until: Instant,
) -> Vec<String> {
    let key = SessionKey {
        tenant: TenantId::new("default").unwrap(),
        session: SessionId::new(session.name.clone()).unwrap(),
    };
    let mut told = Told::new(&key, befell);
    told.receipts(session);
    told.answers(effects);
    told.log(stores, &key).await;
    told.effects(effects);
    told.ends(session);
    told.owners();
    let last_seq = told.history.log().seq.0;
    told.frames(session.frames(last_seq, until).await, last_seq);
    let Told {
        mut found, trace, ..
    } = told;
    if !found.is_empty() {
        found.push(format!("its log:\n{}", trace.join("\n")));
    }
    let of = |what: String| format!("{}: {what}", session.name);
    found.into_iter().map(of).collect()
}

/// One session as its log and its neighbours tell it.
struct Told<'a> {
    befell: &'a Befell,
    history: History,
    /// Calls that the log knows, with their tools.
    calls: BTreeMap<CallId, String>,
    /// How often it was taken over, and from whom, if that one did not let go.
    activations: Vec<Option<String>>,
    found: Vec<String>,
    trace: Vec<String>,
}

impl<'a> Told<'a> {
    fn new(key: &SessionKey, befell: &'a Befell) -> Self {
        let mut history = History::new(key);
        if !befell.excused.is_empty() {
            history.saw(&Seen::OwnerFailed);
        }
        Self {
            befell,
            history,
            calls: BTreeMap::new(),
            activations: Vec::new(),
            found: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn receipts(&mut self, session: &LivedSession) {
        for message in &session.messages {
            let command = CommandId::new(message.id.clone()).unwrap();
            let seen = Seen::Receipted { command: &command };
            self.found.extend(self.history.saw(&seen));
        }
    }

    /// Every tool that did something said the same.
    fn answers(&mut self, effects: &[Effect]) {
        let output = ToolOutput::Json {
            value: json!({ "ok": true }),
        };
        let output = CallOutput::from(output);
        for effect in effects {
            let seen = Seen::ToolAnswered {
                call: call(effect),
                output: Some(&output),
            };
            self.found.extend(self.history.saw(&seen));
        }
    }

    /// Holds every Record against the promises.
    async fn log(&mut self, stores: &Stores, key: &SessionKey) {
        let end = stores.log.tail(key).await.unwrap().tail;
        let mut at = Tail::EMPTY;
        while at < end {
            let page = stores
                .log
                .read(key, ReadFrom::After(at), PAGE)
                .await
                .unwrap();
            for stored in page {
                at = stored.tail;
                self.record(&stored.bytes);
            }
        }
        self.found.extend(self.history.settled());
    }

    fn record(&mut self, bytes: &[u8]) {
        let record = record::decode(bytes).unwrap();
        let Self {
            history,
            calls,
            activations,
            trace,
            ..
        } = self;
        let mut owner = match &history.log().ownership {
            Ownership::Owned { node } => Some(node.to_string()),
            Ownership::Never | Ownership::Released { .. } => None,
        };
        let broken = history.record(&record, bytes, |log, at, event| {
            match event {
                Event::Activated { node, .. } => activations.push(owner.replace(node.to_string())),
                Event::Released { .. } => owner = None,
                Event::CallStarted { call, .. } => {
                    let tool = log.call(*call).map(|call| call.tool.clone());
                    calls.insert(*call, tool.unwrap_or_default());
                }
                _ => {}
            }
            let json = serde_json::to_string(event).unwrap();
            trace.push(format!("  {} {at} {json}", log.seq));
        });
        self.found.extend(broken);
    }

    /// What was done outside is what the log asked for.
    fn effects(&mut self, effects: &[Effect]) {
        let mut times: BTreeMap<CallId, u32> = BTreeMap::new();
        let mut keys: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for effect in effects {
            let call = call(effect);
            let times = times.entry(call).or_default();
            *times += 1;
            let seen = Seen::ToolActed {
                call,
                repeatable: effect.is_repeatable(),
                times: *times,
            };
            self.found.extend(self.history.saw(&seen));
            if !effect.waits_for_its_record() {
                continue;
            }
            if self.calls.get(&call) != Some(&effect.tool) {
                let what = format!(
                    "{} acted as {call}, which the log never started",
                    effect.tool
                );
                self.found.push(what);
            }
            if let Some(about) = &effect.about {
                let keys = keys.entry((&effect.tool, about)).or_default();
                keys.insert(&effect.key);
            }
        }
        for ((tool, about), keys) in keys {
            if keys.len() > 1 {
                let what = format!("{tool} acted for {about} under several keys: {keys:?}");
                self.found.push(what);
            }
        }
    }

    /// Every message that was accepted ended, as its client was told.
    fn ends(&mut self, session: &LivedSession) {
        let log = self.history.log();
        for message in &session.messages {
            let id = CommandId::new(message.id.clone()).unwrap();
            let receipt = log.receipts.get(&id);
            if receipt.is_none() {
                self.found
                    .push(format!("{id} has a receipt, the log knows nothing of it"));
            }
            if message.end.as_deref() != Some("completed") {
                self.found
                    .push(format!("{id} ended as {:?}: {receipt:?}", message.end));
            }
        }
    }

    /// Only owners that failed were replaced, each once.
    fn owners(&mut self) {
        let mut replaced = BTreeSet::new();
        for owner in self.activations.iter().flatten() {
            if !self.befell.excused.contains(owner) {
                let what = format!("{owner} was replaced, which nothing had befallen");
                self.found.push(what);
            }
            if !replaced.insert(owner) {
                self.found.push(format!("{owner} was replaced twice"));
            }
        }
    }

    /// The follower saw what stands in the log, once and in order.
    fn frames(&mut self, frames: Vec<Frame>, last_seq: u64) {
        let seen = joined::events(&frames).len() as u64;
        if seen < last_seq {
            let what = format!("its follower saw {seen} events of {last_seq} in time");
            self.found.push(what);
        }
        for check in [joined::check_committed, joined::check_deltas] {
            let checked = std::panic::catch_unwind(AssertUnwindSafe(|| check(&frames)));
            if let Err(panic) = checked {
                let why = panic.downcast::<String>().map(|why| *why);
                self.found
                    .push(format!("its follower: {}", why.unwrap_or_default()));
            }
        }
    }
}

fn call(effect: &Effect) -> CallId {
    let call = effect.key.split('/').nth(2).unwrap_or_default();
    call.parse()
        .unwrap_or_else(|_| panic!("an odd key: {}", effect.key))
}
