//! A follower that is cut off now and then and comes back with its cursor: no gap, no repeat.

use std::time::Duration;

use futures_util::StreamExt;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_runtime::sessions::Followed;

use super::world::World;

pub(super) async fn follow(world: World, key: SessionKey) {
    let mut cursor = Seq(0);
    loop {
        let sessions = world.sessions().await;
        let stay = Duration::from_millis(500 + world.draw(20_000));
        let following = sessions.follow(&key, cursor, true);
        drop(sessions);
        // Cut off, or the node went away: it comes back where it was.
        let _ = tokio::time::timeout(stay, read(&world, &key, &mut cursor, following)).await;
        tokio::time::sleep(Duration::from_millis(100 + world.draw(2_000))).await;
    }
}

async fn read(
    world: &World,
    key: &SessionKey,
    cursor: &mut Seq,
    mut following: steadfast_runtime::sessions::Follower,
) {
    while let Some(Ok(followed)) = following.next().await {
        let Followed::Record { from, record } = followed else {
            continue;
        };
        // What stood before a deletion is purged; who had not read it by then does not get it.
        let purged = world.deleted_within(key, *cursor, record.last_seq());
        if from != cursor.next() && !purged {
            let how = format!("a follower at {cursor} was given {from}");
            world.broken(key.session.as_str(), &how);
        }
        *cursor = record.last_seq();
    }
}
