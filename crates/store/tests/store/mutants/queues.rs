//! Mailboxes and timers that break a rule.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};
use steadfast_store::suite::{Subject, mailbox, mailbox_queue, timers};
use steadfast_store::timers::{Due, Timers};

use super::{broken, fails};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bug {
    None,
    SharesOneLane,
    OrdersByLane,
    AcknowledgesEverything,
    AcknowledgesNothing,
    IgnoresDelays,
    IgnoresGivingBack,
    TakesWhatItDelivers,
    FiresEarly,
    FiresOnce,
    FiresForEver,
    ForgetsEpochs,
}

struct BrokenMailbox {
    inner: Arc<dyn Mailbox>,
    bug: Bug,
}

#[async_trait]
impl Mailbox for BrokenMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        let lane = match self.bug {
            Bug::SharesOneLane => Lane::Messages,
            _ => lane,
        };
        self.inner.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let mut letters = self.inner.pending(session, after, limit).await?;
        if self.bug == Bug::OrdersByLane {
            letters.sort_by_key(|letter| letter.lane);
        }
        Ok(letters)
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        let up_to = match self.bug {
            Bug::AcknowledgesEverything => MailSeq(u64::MAX),
            Bug::AcknowledgesNothing => MailSeq(0),
            _ => up_to,
        };
        self.inner.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        let delivery = self.inner.next().await?;
        if self.bug == Bug::TakesWhatItDelivers {
            let taken = self.inner.acknowledge(&delivery.session, delivery.up_to);
            taken.await.unwrap();
        }
        Ok(delivery)
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        match self.bug {
            Bug::IgnoresDelays => self.inner.give_back(delivery, Duration::ZERO).await,
            Bug::IgnoresGivingBack => Ok(()),
            _ => self.inner.give_back(delivery, delay).await,
        }
    }
}

struct BrokenTimers {
    inner: Arc<dyn Timers>,
    bug: Bug,
}

#[async_trait]
impl Timers for BrokenTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        match self.bug {
            Bug::FiresEarly => {
                let early = Timestamp(at.0.saturating_sub(100));
                self.inner.set(session, epoch, early).await
            }
            Bug::ForgetsEpochs => self.inner.set(session, Epoch(1), at).await,
            _ => self.inner.set(session, epoch, at).await,
        }
    }

    async fn next(&self) -> Result<Due, ReadError> {
        let due = self.inner.next().await?;
        if self.bug == Bug::FiresOnce {
            self.inner.acknowledge(&due).await.unwrap();
        }
        Ok(due)
    }

    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        match self.bug {
            Bug::FiresForEver => Ok(()),
            _ => self.inner.acknowledge(due).await,
        }
    }
}

fn with(bug: Bug) -> Subject {
    broken(|stores| {
        let inner = Arc::clone(&stores.mailbox);
        stores.mailbox = Arc::new(BrokenMailbox { inner, bug });
        let inner = Arc::clone(&stores.timers);
        stores.timers = Arc::new(BrokenTimers { inner, bug });
    })
}

#[tokio::test(start_paused = true)]
async fn broken_mailboxes_are_found() {
    let order = mailbox::letters_keep_their_order_over_both_lanes;
    fails("order", order(with(Bug::OrdersByLane))).await;
    fails("lane", order(with(Bug::SharesOneLane))).await;
    let full = mailbox::a_full_lane_refuses_alone;
    fails("full", full(with(Bug::SharesOneLane))).await;
    let gone = mailbox::acknowledged_letters_are_gone;
    fails("all", gone(with(Bug::AcknowledgesEverything))).await;
    fails("none", gone(with(Bug::AcknowledgesNothing))).await;
    let every = mailbox_queue::every_session_with_mail_is_announced;
    fails("again", every(with(Bug::AcknowledgesNothing))).await;
    let back = mailbox_queue::mail_given_back_comes_again_after_its_delay;
    fails("delay", back(with(Bug::IgnoresDelays))).await;
    fails("back", back(with(Bug::TakesWhatItDelivers))).await;
    let silence = mailbox_queue::silence_brings_mail_again;
    fails("silence", silence(with(Bug::TakesWhatItDelivers))).await;
    assert!(silence(with(Bug::None)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_not_given_back_comes_late() {
    // Silence brings it again anyway: only the time tells, so the case must look at it.
    let back = mailbox_queue::mail_given_back_comes_again_after_its_delay;
    fails("back", back(with(Bug::IgnoresGivingBack))).await;
}

#[tokio::test(start_paused = true)]
async fn broken_timers_are_found() {
    let early = timers::a_timer_fires_not_before_its_time;
    fails("early", early(with(Bug::FiresEarly))).await;
    let until = timers::a_timer_fires_until_it_is_acknowledged;
    fails("once", until(with(Bug::FiresOnce))).await;
    fails("for ever", until(with(Bug::FiresForEver))).await;
    let own = timers::sessions_and_epochs_have_timers_of_their_own;
    fails("epochs", own(with(Bug::ForgetsEpochs))).await;
    assert!(until(with(Bug::None)).await.is_ok());
}
