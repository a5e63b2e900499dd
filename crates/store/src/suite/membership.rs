//! Leases of nodes.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::NodeId;
use tokio::time::timeout;

use super::samples::node;
use super::{Failure, Outcome, Subject, soon};
use crate::membership::LeaseSignal;
use crate::stores::Stores;

type Watch = BoxStream<'static, LeaseSignal>;

/// Waits for one signal; interruptions may come at any time.
async fn comes(watch: &mut Watch, wanted: &LeaseSignal) -> Outcome {
    let heard = async {
        loop {
            match watch.next().await {
                Some(signal) if signal == *wanted => return Ok(()),
                Some(_) => {}
                None => return Err(Failure::new("the watch ended")),
            }
        }
    };
    soon("a lease signal", heard).await?
}

/// Renews until a new watch hears it.
async fn connect(stores: &Stores, name: &NodeId, watch: &mut Watch) -> Outcome {
    let heard = async {
        loop {
            stores.membership.renew(name).await?;
            let wanted = LeaseSignal::Renewed(name.clone());
            let heard = timeout(Duration::from_millis(200), comes(watch, &wanted)).await;
            if let Ok(outcome) = heard {
                return outcome;
            }
        }
    };
    soon("a first renewal", heard).await?
}

/// Every renewal is seen by every node, the caller too.
pub async fn renewals_are_seen_by_all(subject: Subject) -> Outcome {
    let (a, b) = (node("a")?, node("b")?);
    let mut own = subject.stores.membership.watch().await?;
    let mut peers = subject.peer.membership.watch().await?;
    for watch in [&mut own, &mut peers] {
        connect(&subject.stores, &a, watch).await?;
    }
    for _ in 0..3 {
        subject.peer.membership.renew(&b).await?;
        comes(&mut own, &LeaseSignal::Renewed(b.clone())).await?;
        comes(&mut peers, &LeaseSignal::Renewed(b.clone())).await?;
    }
    Ok(())
}

/// A lease that is given back is signalled, and can be taken again.
pub async fn a_lease_given_back_is_signalled(subject: Subject) -> Outcome {
    let a = node("a")?;
    let mut watch = subject.peer.membership.watch().await?;
    connect(&subject.stores, &a, &mut watch).await?;
    subject.stores.membership.end(&a).await?;
    comes(&mut watch, &LeaseSignal::Ended(a.clone())).await?;
    subject.stores.membership.end(&a).await?;
    subject.stores.membership.renew(&a).await?;
    comes(&mut watch, &LeaseSignal::Renewed(a.clone())).await
}

/// A watch begins with what comes, not with what was: an old lease is no sign of life.
pub async fn a_watch_tells_nothing_of_before(subject: Subject) -> Outcome {
    let (a, b) = (node("a")?, node("b")?);
    for _ in 0..3 {
        subject.stores.membership.renew(&a).await?;
    }
    // A renewal may be signalled late, but not for ever.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut watch = subject.stores.membership.watch().await?;
    let heard = async {
        loop {
            subject.stores.membership.renew(&b).await?;
            match timeout(Duration::from_millis(200), watch.next()).await {
                Ok(Some(LeaseSignal::Renewed(heard))) if heard == b => return Ok(()),
                Ok(Some(LeaseSignal::Renewed(heard))) => {
                    return Err(Failure::new(format!("a renewal of {heard} from before")));
                }
                Ok(None) => return Err(Failure::new("the watch ended")),
                Ok(Some(_)) | Err(_) => {}
            }
        }
    };
    soon("a renewal", heard).await?
}
