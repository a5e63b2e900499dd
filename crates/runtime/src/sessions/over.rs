//! Waiting for the end of one message.

use futures_util::StreamExt;
use std::sync::Arc;

use steadfast_core::event::Verdict;
use steadfast_core::id::{MessageId, Seq, SessionKey};
use steadfast_core::receipt::Progress;
use steadfast_core::session::Session;

use super::{Followed, LoadError, Sessions};
use crate::feed::may_end_a_message;

impl Sessions {
    /// Waits until a message is over and gives the state in which it is; for ever if it never is.
    pub async fn message_over(
        &self,
        key: &SessionKey,
        id: &MessageId,
    ) -> Result<Arc<Session>, LoadError> {
        loop {
            // Where other nodes append, an owner here may not know that it is none any more: then
            // the log is listened to.
            let alone = self.shared.host.members.are_alone();
            let door = alone.then(|| self.shared.doors.find(key)).flatten();
            let Some(door) = door else {
                let session = self.load(key).await?;
                if is_over(&session, id) {
                    return Ok(session);
                }
                self.next_end(key, session.seq).await?;
                continue;
            };
            // Enabled before the look, so that nothing falls in between.
            let mut over = std::pin::pin!(door.feed.over());
            over.as_mut().enable();
            let gone = door.feed.is_gone();
            let session = self.load(key).await?;
            if is_over(&session, id) {
                return Ok(session);
            }
            if gone {
                door.gone().await;
            } else {
                over.await;
            }
        }
    }

    /// Waits for a Record with which some message may be over.
    async fn next_end(&self, key: &SessionKey, after: Seq) -> Result<(), LoadError> {
        let mut follower = self.follow(key, after, false);
        while let Some(item) = follower.next().await {
            if let Followed::Record { record, .. } = item?
                && may_end_a_message(&record)
            {
                return Ok(());
            }
        }
        Err(LoadError::Unavailable("its news ended".into()))
    }
}

fn is_over(session: &Session, id: &MessageId) -> bool {
    session.receipts.get(id).is_some_and(|receipt| {
        matches!(receipt.verdict, Verdict::Rejected { .. })
            || matches!(receipt.progress, Some(Progress::Ended { .. }))
    })
}
