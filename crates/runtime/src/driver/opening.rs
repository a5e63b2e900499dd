//! Reading a session and its mail, before anything is decided.

use std::sync::Arc;

use steadfast_core::id::NodeId;
use steadfast_core::session::{Ownership, Session};
use steadfast_store::mailbox::Letter;

use super::{Driver, End, commands};
use crate::directory;
use crate::doors::Seat;
use crate::host::Host;
use crate::open::{self, OpenError};

/// The other node that owns a session, unless it is gone.
async fn owner_elsewhere(host: &Host, session: &Session) -> Option<NodeId> {
    let Ownership::Owned { node } = &session.ownership else {
        return None;
    };
    let gone = host.members.owner_is_gone(node, &session.key).await;
    (!gone).then(|| node.clone())
}

/// Reads a session and its mail.
pub(super) async fn open(
    host: Arc<Host>,
    mut seat: Seat,
) -> Result<(Box<Driver>, Vec<Letter>), (End, Seat)> {
    let batch = host.options.mail_batch_max;
    let alone = host.members.are_alone();
    // What knocked before the mailbox is read is not overtaken by what is in it.
    let covered = seat.inbox.len();
    let (opened, letters) = tokio::join!(
        open::open(&host.stores, &seat.key, host.options.read_batch_records),
        host.stores
            .mailbox
            .pending(&seat.key, Default::default(), batch),
    );
    match opened.and_then(|opened| Ok((opened, letters?))) {
        Ok((opened, letters)) => {
            let owner = owner_elsewhere(&host, &opened.session).await;
            let mut driver = Box::new(Driver::new(host, seat, opened, owner));
            driver.mailroom.covered = covered;
            Ok((driver, letters))
        }
        Err(error) => {
            tracing::warn!(session = %seat.key, %error, "session not opened");
            if matches!(error, OpenError::Quarantined { .. }) {
                directory::quarantine(&host, &seat.key).await;
            }
            let end = End::NotOpened(error);
            commands::refuse_inbox(&mut seat, &end, alone).await;
            Err((end, seat))
        }
    }
}
