//! Session actors: a thin shell that gives each driver an identity, a supervisor and an end.
//!
//! ```text
//!   Keeper (supervisor) --linked--> SessionActor: one message, Drive, handled until the end
//! ```
//!
//! An actor ends, too, when its session falls idle: the driver is then parked behind the session's
//! door, and a new actor takes it over when somebody knocks.
//!
//! Questions come through the door's bounded channel, not through the actor's own mailbox, which
//! has no bound. A panic costs the one actor: its seat is dropped, which takes its door away and
//! lets the session rest; the keeper writes down what happened. When the keeper ends, all end.

use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use crate::driver::{self, End, Start};
use crate::host::Host;

/// Runs one session.
struct SessionActor;

struct Drive;

/// What a session actor begins with.
struct Employment {
    host: Arc<Host>,
    start: Start,
}

impl Actor for SessionActor {
    type Msg = Drive;
    type State = Option<Employment>;
    type Arguments = Employment;

    async fn pre_start(
        &self,
        myself: ActorRef<Drive>,
        employment: Employment,
    ) -> Result<Option<Employment>, ActorProcessingErr> {
        myself.cast(Drive)?;
        Ok(Some(employment))
    }

    async fn handle(
        &self,
        myself: ActorRef<Drive>,
        Drive: Drive,
        employment: &mut Option<Employment>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(Employment { host, start }) = employment.take() {
            let key = start.key().clone();
            // The library keeps room for this future twice.
            let end = Box::pin(driver::drive(host, start)).await;
            match &end {
                End::GaveUp(detail) | End::NoRoom(detail) => {
                    tracing::error!(session = %key, detail, "session's owner gave up");
                }
                End::Parked => tracing::debug!(session = %key, "session parked"),
                End::NotNeeded
                | End::Released
                | End::Lost
                | End::Elsewhere(_)
                | End::NotOpened(_) => {
                    tracing::debug!(session = %key, ?end, "session let go");
                }
            }
        }
        myself.stop(None);
        Ok(())
    }
}

/// Brings a session to life.
pub(crate) async fn spawn(
    host: Arc<Host>,
    start: Start,
    keeper: ActorCell,
) -> Result<(), SpawnErr> {
    let employment = Employment { host, start };
    Actor::spawn_linked(None, SessionActor, employment, keeper).await?;
    Ok(())
}

/// Supervises all session actors of the process.
struct Keeper;

/// The keeper is asked nothing; it only hears of its children.
pub(crate) struct Nothing;

impl Actor for Keeper {
    type Msg = Nothing;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Nothing>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Nothing>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(actor, error) = event {
            tracing::error!(actor = %actor.get_id(), %error, "session actor failed");
        }
        Ok(())
    }
}

/// Starts a keeper.
pub(crate) async fn keeper() -> Result<ActorRef<Nothing>, SpawnErr> {
    let (keeper, _) = Actor::spawn(None, Keeper, ()).await?;
    Ok(keeper)
}
