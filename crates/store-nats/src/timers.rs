//! Timers on JetStream: a schedule for each session and epoch, which the broker turns into a
//! message of a work queue when its time has come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::clock::{Clock, SystemClock};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::timers::{Due, Timers};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::headers;
use crate::pull::{ConsumerName, Pulled, Puller, Receipt};
use crate::request::Shared;
use crate::subject::Names;
use crate::task::lock;

/// Name of the consumer that all nodes share.
pub(crate) const CONSUMER: &str = "drivers";
/// The last time that a schedule can have: the end of the year 9999.
const TIME_MAX_MS: u64 = 253_402_300_799_000;
/// A timer that comes early by no more waits for its time: clocks are never quite alike.
const EARLY_MAX: Duration = Duration::from_secs(10);
/// One that is earlier shows that a clock is wrong, the broker's or this node's. It is passed on so
/// often, to a node whose clock agrees with the broker's, then the broker is believed: else one node
/// whose clock is an hour late would hold up for an hour whatever comes its way.
const PASSED_ON_MAX: u64 = 3;
/// Wait before it comes to the next.
const PASS_ON: Duration = Duration::from_millis(500);
/// Timers that fired here and are remembered until they are acknowledged. One that is forgotten
/// fires once more.
const FIRED_MAX: usize = 20_000;
/// How long one is remembered.
const FIRED_KEPT: Duration = Duration::from_secs(600);

/// [`Timers`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsTimers {
    connection: Shared,
    names: Arc<Names>,
    puller: Puller,
    fired: Mutex<Fired>,
}

/// Deliveries of timers that are not acknowledged.
#[derive(Debug, Default)]
struct Fired {
    receipts: BTreeMap<Due, (Instant, Vec<Receipt>)>,
}

impl Fired {
    fn insert(&mut self, due: &Due, receipt: Receipt) {
        let now = Instant::now();
        if self.receipts.len() >= FIRED_MAX {
            self.receipts
                .retain(|_, (at, _)| now.duration_since(*at) < FIRED_KEPT);
        }
        let (at, receipts) = self
            .receipts
            .entry(due.clone())
            .or_insert_with(|| (now, Vec::new()));
        *at = now;
        if !receipts.contains(&receipt) {
            receipts.push(receipt);
        }
    }
}

impl NatsTimers {
    pub(crate) fn new(connection: Shared, names: Arc<Names>, silence: Duration) -> Self {
        let consumer = ConsumerName {
            stream: names.timer_stream(),
            consumer: CONSUMER.to_owned(),
        };
        Self {
            puller: Puller::new(Arc::clone(&connection), vec![consumer], 1, silence),
            connection,
            names,
            fired: Mutex::default(),
        }
    }

    /// Which timer a delivery is of, and its time.
    fn due(&self, pulled: &Pulled) -> Option<(Due, Timestamp)> {
        let (session, rest) = self.names.session_of("due", &pulled.subject)?;
        if rest.is_some() {
            return None;
        }
        let epoch = Epoch(headers::number(&pulled.headers, headers::EPOCH)?);
        let at = Timestamp(headers::number(&pulled.headers, headers::AT)?);
        Some((Due { session, epoch }, at))
    }

    async fn answer(&self, pulled: &Pulled, kind: AckKind) {
        if let Err(error) = self.connection.tell(&pulled.receipt, kind).await {
            tracing::debug!(%error, "a timer's delivery was not answered and comes again");
        }
    }
}

#[async_trait]
impl Timers for NatsTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        let subject = self.names.timer(session, epoch);
        let map = schedule(&self.names.due(session), epoch, at)?;
        self.connection.publish(&subject, map, Bytes::new()).await?;
        Ok(())
    }

    async fn next(&self) -> Result<Due, ReadError> {
        loop {
            let pulled = self.puller.next().await?;
            let Some((due, at)) = self.due(&pulled) else {
                tracing::error!(
                    subject = pulled.subject,
                    "a message that is no timer is removed"
                );
                self.answer(&pulled, AckKind::Term).await;
                continue;
            };
            let early_ms = at.0.saturating_sub(SystemClock.now().0);
            if let Some(rest) = wait_for_its_time(early_ms, pulled.deliveries)
                && at.0 <= TIME_MAX_MS
            {
                self.answer(&pulled, AckKind::Nak(Some(rest))).await;
                continue;
            }
            lock(&self.fired).insert(&due, pulled.receipt);
            return Ok(due);
        }
    }

    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        let receipts = lock(&self.fired).receipts.get(due).cloned();
        let Some((_, receipts)) = receipts else {
            return Ok(());
        };
        for receipt in &receipts {
            self.connection.tell_surely(receipt, AckKind::Ack).await?;
        }
        let mut fired = lock(&self.fired);
        if let Some((_, left)) = fired.receipts.get_mut(due) {
            left.retain(|receipt| !receipts.contains(receipt));
            if left.is_empty() {
                fired.receipts.remove(due);
            }
        }
        Ok(())
    }
}

/// How long a timer is given back that comes so early at its `deliveries`-th delivery; `None`: it
/// counts as due.
fn wait_for_its_time(early_ms: u64, deliveries: u64) -> Option<Duration> {
    let early = Duration::from_millis(early_ms);
    if early.is_zero() {
        None
    } else if early <= EARLY_MAX {
        Some(early)
    } else {
        (deliveries <= PASSED_ON_MAX).then_some(PASS_ON)
    }
}

fn schedule(target: &str, epoch: Epoch, at: Timestamp) -> Result<HeaderMap, WriteError> {
    let at_ms = at.0.min(TIME_MAX_MS);
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .ok_or_else(|| WriteError::Refused(format!("{at_ms} ms is no time of a timer")))?;
    Ok(headers::map(&[
        (headers::SCHEDULE, &format!("@at {time}")),
        (headers::SCHEDULE_TARGET, &target),
        (headers::EPOCH, &epoch),
        (headers::AT, &at),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_the_time_to_the_millisecond() {
        let map = schedule("sf.due.0.t.s", Epoch(3), Timestamp(1_780_000_000_123)).unwrap();
        let text = |name| headers::text(&map, name).unwrap().to_owned();
        assert_eq!(text(headers::SCHEDULE), "@at 2026-05-28T20:26:40.123Z");
        assert_eq!(text(headers::SCHEDULE_TARGET), "sf.due.0.t.s");
        assert_eq!(text(headers::AT), "1780000000123");
    }

    #[test]
    fn a_clock_that_is_an_hour_late_holds_a_timer_up_for_moments_only() {
        let hour_ms = 3_600_000;
        assert_eq!(wait_for_its_time(0, 1), None);
        assert_eq!(wait_for_its_time(7, 9), Some(Duration::from_millis(7)));
        assert_eq!(wait_for_its_time(hour_ms, 1), Some(PASS_ON));
        assert_eq!(wait_for_its_time(hour_ms, PASSED_ON_MAX), Some(PASS_ON));
        assert_eq!(wait_for_its_time(hour_ms, PASSED_ON_MAX + 1), None);
    }

    #[test]
    fn the_farthest_time_is_one_too() {
        let map = schedule("sf.due.0.t.s", Epoch(1), Timestamp(u64::MAX)).unwrap();
        let text = headers::text(&map, headers::SCHEDULE);
        assert_eq!(text, Some("@at 9999-12-31T23:59:59Z"));
    }
}
