//! A store whose log kills its own process at a chosen append: before it, after it, or never letting
//! it end. The product's code has no hook for this; the store is a port, and this is another one.

use std::future::pending;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use steadfast_core::id::SessionKey;
use steadfast_protocol::record;
use steadfast_store::Stores;
use steadfast_store::log::{Append, AppendError, AroundLog, Log, Tail};

/// The variable of the environment that holds a process's crash point.
pub const CRASH_POINT: &str = "STEADFAST_CRASH_POINT";

/// When the process dies: at the `nth` append whose Record has an event of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    /// On which side of the append.
    pub moment: Moment,
    /// Kind of an event as the log spells it, for example `model_replied`.
    pub event: String,
    /// Which such append, from 1.
    pub nth: u32,
}

/// On which side of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The Record is not written.
    Before,
    /// The Record is durable, its writer does not know.
    After,
    /// The Record is not written, and its writer waits until somebody else ends the process.
    Stall,
}

impl CrashPoint {
    /// The point as the environment gives it, `<moment>:<event>:<nth>`.
    pub fn text(&self) -> String {
        let moment = match self.moment {
            Moment::Before => "before",
            Moment::After => "after",
            Moment::Stall => "stall",
        };
        format!("{moment}:{}:{}", self.event, self.nth)
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("not a crash point: {text}");
        let [moment, event, nth] = text
            .split(':')
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| odd())?;
        let moment = match moment {
            "before" => Moment::Before,
            "after" => Moment::After,
            "stall" => Moment::Stall,
            _ => return Err(odd()),
        };
        Ok(Self {
            moment,
            event: event.to_owned(),
            nth: nth.parse().map_err(|_| odd())?,
        })
    }
}

/// These stores, with a log that crashes at this point.
pub fn crashing(stores: Stores, point: CrashPoint) -> Stores {
    let log = CrashLog {
        inner: Arc::clone(&stores.log),
        point,
        seen: AtomicU32::new(0),
    };
    Stores {
        log: Arc::new(log),
        ..stores
    }
}

struct CrashLog {
    inner: Arc<dyn Log>,
    point: CrashPoint,
    seen: AtomicU32,
}

impl CrashLog {
    /// Whether this is the append.
    fn is_it(&self, append: &Append) -> bool {
        let Ok(record) = record::decode(&append.bytes) else {
            return false;
        };
        let events = record.entries.iter().flat_map(|entry| &entry.events);
        let mut kinds = events.filter_map(|event| serde_json::to_value(event).ok());
        let wanted = Value::from(self.point.event.as_str());
        kinds.any(|event| event["type"] == wanted)
            && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.point.nth
    }
}

/// Ends this process as a power cut would.
async fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    pending().await
}

#[async_trait]
impl AroundLog for CrashLog {
    fn inner(&self) -> &dyn Log {
        &*self.inner
    }

    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        if !self.is_it(&append) {
            return self.inner.append(session, expected, append).await;
        }
        match self.point.moment {
            Moment::Before => die().await,
            Moment::Stall => pending().await,
            Moment::After => {
                let appended = self.inner.append(session, expected, append).await;
                // Only a Record that stands is the point.
                if appended.is_ok() {
                    die().await;
                }
                appended
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_reads_as_it_is_written() {
        let point = CrashPoint {
            moment: Moment::After,
            event: "model_replied".to_owned(),
            nth: 2,
        };
        assert_eq!(point.text(), "after:model_replied:2");
        assert_eq!(point.text().parse(), Ok(point));
        for text in ["", "after:x", "later:x:1", "after:x:-1", "after:x:1:2"] {
            assert!(text.parse::<CrashPoint>().is_err(), "{text:?} was accepted");
        }
    }
}
