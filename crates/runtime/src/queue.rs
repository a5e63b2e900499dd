//! The queue driver: takes mail to the session's owner, here or elsewhere, or gives the session one.
//!
//! It never stops taking news: what it bounds is how many deliveries it works on and how many
//! sessions it opens at the same time. A session for which there is no room waits a while for it,
//! since a place is free again within milliseconds; what finds none even then is given back with a
//! delay, so that the next session, and another node, have their turn.
//!
//! A node that stops gives back at once whatever it still holds: nobody else would see it before
//! its silence.

mod room;

use std::sync::Arc;

use steadfast_core::id::NodeId;
use steadfast_protocol::door::{Answer, Question};
use steadfast_store::mailbox::{Delivery, MailSeq};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use crate::doors::{Doors, Knock, Refusal};
use crate::host::{Host, backoff};
use crate::sessions::{KnockError, Sessions};
use room::Room;

/// Wait after the queue could not be read.
const RETRY: Duration = Duration::from_secs(1);
/// How often mail is taken to another owner before it is given back.
const LOST_MAX: u32 = 3;

/// What became of a delivery.
enum Delivered {
    /// Its mail is decided and committed.
    Taken,
    /// There is no room to open its session now.
    NoRoom,
    /// Its owner cannot take it now.
    NotNow,
    /// It is for other nodes: this one stops.
    ToOthers,
}

/// The queue driver of one node.
#[derive(Clone)]
pub(crate) struct QueueDriver {
    host: Arc<Host>,
    doors: Arc<Doors>,
    sessions: Sessions,
    room: Arc<Room>,
}

impl QueueDriver {
    pub(crate) fn new(host: Arc<Host>, doors: Arc<Doors>, sessions: Sessions) -> Self {
        // The other half of the deliveries is for sessions that are in memory somewhere.
        let waiting_max = host.options.deliveries_max / 2;
        let room = Arc::new(Room::new(host.options.activations_max, waiting_max));
        Self {
            host,
            doors,
            sessions,
            room,
        }
    }

    /// Runs until `shutdown`.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut at_work = JoinSet::new();
        loop {
            let delivery = tokio::select! { biased;
                () = shutdown.cancelled() => break,
                Some(_) = at_work.join_next(), if !at_work.is_empty() => continue,
                delivery = self.host.stores.mailbox.next() => delivery,
            };
            match delivery {
                Ok(delivery) if at_work.len() < self.host.options.deliveries_max => {
                    let (driver, shutdown) = (self.clone(), shutdown.clone());
                    at_work.spawn(async move { driver.work(delivery, &shutdown).await });
                }
                Ok(delivery) => self.give_back(delivery, &Delivered::NoRoom).await,
                Err(error) => {
                    tracing::warn!(%error, "queue not read, again");
                    tokio::select! { biased;
                        () = shutdown.cancelled() => break,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
        }
        while at_work.join_next().await.is_some() {}
    }

    async fn work(&self, delivery: Delivery, shutdown: &CancellationToken) {
        let outcome = tokio::select! { biased;
            outcome = self.deliver(&delivery) => outcome,
            () = shutdown.cancelled() => Delivered::ToOthers,
        };
        match outcome {
            // Its owner removed the mail. If that was lost, the mail came again.
            Delivered::Taken if delivery.deliveries > 1 => {
                let Delivery { session, up_to, .. } = delivery;
                if let Err(error) = self.host.stores.mailbox.acknowledge(&session, up_to).await {
                    tracing::debug!(%session, %error, "mail not removed");
                }
            }
            Delivered::Taken => {}
            outcome => self.give_back(delivery, &outcome).await,
        }
    }

    async fn give_back(&self, delivery: Delivery, outcome: &Delivered) {
        let options = &self.host.options;
        let delay = match outcome {
            Delivered::ToOthers => Duration::ZERO,
            Delivered::Taken | Delivered::NotNow => options.mail_delay,
            Delivered::NoRoom => {
                let deliveries = u32::try_from(delivery.deliveries).unwrap_or(u32::MAX);
                backoff(options.mail_delay, options.mail_delay_max, deliveries)
            }
        };
        let session = delivery.session.clone();
        if let Err(error) = self.host.stores.mailbox.give_back(delivery, delay).await {
            // It comes again by itself.
            tracing::debug!(%session, %error, "mail not given back");
        }
    }

    async fn deliver(&self, delivery: &Delivery) -> Delivered {
        for _ in 0..LOST_MAX {
            let key = &delivery.session;
            // Kept until the mail is taken: a session that was opened for it counts until then.
            let _place = match self.doors.find(key) {
                Some(_) => None,
                None => {
                    let patience = self.host.options.room_patience;
                    match Room::enter(&self.room, &key.tenant, patience).await {
                        Some(place) => Some(place),
                        None => return Delivered::NoRoom,
                    }
                }
            };
            let (reply, answer) = oneshot::channel();
            let up_to = delivery.up_to;
            let door = match self.sessions.knock(key, Knock::Mail { up_to, reply }).await {
                Ok(door) => door,
                Err(KnockError::Gone) => continue,
                Err(KnockError::Full) => return Delivered::NoRoom,
                Err(KnockError::NotNow(detail)) => {
                    tracing::debug!(session = %key, detail, "mail waits");
                    return Delivered::NotNow;
                }
            };
            match timeout(self.host.options.owner_patience, answer).await {
                Ok(Ok(Ok(_))) => return Delivered::Taken,
                Ok(Ok(Err(Refusal::Again))) => door.gone().await,
                Ok(Ok(Err(Refusal::Elsewhere(owner)))) => {
                    match self.forward(&owner, delivery).await {
                        Some(outcome) => return outcome,
                        None => door.gone().await,
                    }
                }
                Ok(Ok(Err(Refusal::ForTheQueue | Refusal::Releasing | Refusal::Error(_))))
                | Ok(Err(_))
                | Err(_) => return Delivered::NotNow,
            }
        }
        Delivered::NotNow
    }

    /// Takes mail to its owner's door. `None`: that node does not own the session any more, or is
    /// found dead meanwhile: then nothing is gained by waiting until its patience is over.
    async fn forward(&self, owner: &NodeId, delivery: &Delivery) -> Option<Delivered> {
        let question = Question::Mail {
            session: delivery.session.clone(),
            up_to: delivery.up_to.0,
        };
        let patience = self.host.options.owner_patience;
        let members = &self.host.members;
        let answer = tokio::select! { biased;
            () = members.found_dead(owner) => return None,
            answer = members.ask(owner, &question, patience) => answer,
        };
        match answer {
            Ok(Answer::Mine { taken }) if MailSeq(taken) >= delivery.up_to => {
                Some(Delivered::Taken)
            }
            Ok(Answer::NotMine) => None,
            Ok(answer) => {
                tracing::debug!(session = %delivery.session, %owner, ?answer, "mail waits");
                Some(Delivered::NotNow)
            }
            Err(error) => {
                tracing::debug!(session = %delivery.session, %owner, %error, "mail waits");
                Some(Delivered::NotNow)
            }
        }
    }
}
