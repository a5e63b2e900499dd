//! The mailbox on redb: one row for each letter, a session's letters one range.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{
    Delivery, LANE_LETTERS_MAX, Lane, Letter, MailSeq, Mailbox, SendError,
};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::group::Group;
use crate::key::{self, KeyRange};
use crate::operation::{LaneCounts, News, Promise, Step};
use crate::table::TableName;

/// A letter above this is refused.
const LETTER_BYTES_MAX: usize = 16 * 1024 * 1024;

const MESSAGES: u8 = 1;
const CONTROL: u8 = 2;

/// [`Mailbox`] on redb.
pub(crate) struct RedbMailbox {
    engine: Arc<Engine>,
}

impl RedbMailbox {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl Mailbox for RedbMailbox {
    // The id is for people who look into a broker's streams; nobody looks into this file.
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        _id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        if bytes.len() > LETTER_BYTES_MAX {
            let reason = format!("a letter of more than {LETTER_BYTES_MAX} bytes");
            return Err(WriteError::Refused(reason).into());
        }
        let session = session.clone();
        self.engine
            .write(Promise::Kept, bytes.len(), move |group| {
                put_in(group, &session, lane, &bytes)
            })
            .await?
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        // Told before a letter is acknowledged: whoever is not known here has none.
        if !self.engine.shared.letters.any(session) {
            return Ok(Vec::new());
        }
        let mut range = key::of_session(session);
        range.first = key::numbered(session, after.0.saturating_add(1));
        let rows = self.engine.read_rows(TableName::Mail, range, limit).await?;
        rows.into_iter()
            .map(|(key, row)| read_letter(session, &key, row).map_err(Fault::into_read_error))
            .collect()
    }

    // Not synced at once: a letter that comes back after a crash was decided before it was
    // acknowledged, and its session knows it.
    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        let session = session.clone();
        self.engine
            .write(Promise::Seen, 0, move |group| {
                take_out(group, &session, up_to)
            })
            .await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        tokio::select! {
            biased;
            reason = self.engine.shared.not_working() => Err(ReadError::Unavailable(reason)),
            delivery = self.engine.shared.mail_queue.next() => Ok(delivery),
        }
    }

    // In memory: after a crash every session with mail is announced anyway.
    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.engine.shared.mail_queue.give_back(&delivery, delay);
        Ok(())
    }
}

fn put_in(
    group: &mut Group<'_>,
    session: &SessionKey,
    lane: Lane,
    bytes: &[u8],
) -> Result<Step<Result<MailSeq, SendError>>, Fault> {
    if *group.letters(session).of(lane) >= LANE_LETTERS_MAX {
        return Ok(Step::unchanged(Err(SendError::Full)));
    }
    let seq = group.next_position();
    let mut row = Vec::with_capacity(1 + bytes.len());
    row.push(match lane {
        Lane::Messages => MESSAGES,
        Lane::Control => CONTROL,
    });
    row.extend_from_slice(bytes);
    group.put(TableName::Mail, key::numbered(session, seq), row);
    *group.letters(session).of(lane) += 1;
    let news = News::Mailed(session.clone(), lane, MailSeq(seq));
    Ok(Step::changed(Ok(MailSeq(seq))).telling(news))
}

fn take_out(
    group: &mut Group<'_>,
    session: &SessionKey,
    up_to: MailSeq,
) -> Result<Step<()>, Fault> {
    let range = KeyRange {
        first: key::session(session),
        end: key::numbered(session, up_to.0.saturating_add(1)),
    };
    let mut removed = LaneCounts::default();
    let mut keys = Vec::new();
    for row in group.sight().rows(TableName::Mail, &range)? {
        let row = row?;
        *removed.of(lane_of(&row.value)) += 1;
        keys.push(row.key.into_bytes());
    }
    for key in keys {
        group.remove(TableName::Mail, key);
    }
    let news = News::Acknowledged(session.clone(), up_to, removed);
    if removed == LaneCounts::default() {
        return Ok(Step::unchanged(()).telling(news));
    }
    let letters = group.letters(session);
    *letters = letters.minus(removed);
    Ok(Step::changed(()).telling(news))
}

/// The lane that a row counts against.
pub(crate) fn lane_of(row: &[u8]) -> Lane {
    match row.first() {
        Some(&CONTROL) => Lane::Control,
        // A row that cannot be read counts somewhere, so that its session is announced and whoever
        // reads its mail is told.
        _ => Lane::Messages,
    }
}

fn read_letter(session: &SessionKey, key: &[u8], row: Bytes) -> Result<Letter, Fault> {
    let corrupt = || Fault::Corrupt(format!("a letter of {session} cannot be read"));
    let (_, seq) = key::split_numbered(key).ok_or_else(corrupt)?;
    let lane = match row.first() {
        Some(&MESSAGES) => Lane::Messages,
        Some(&CONTROL) => Lane::Control,
        _ => return Err(corrupt()),
    };
    Ok(Letter {
        seq: MailSeq(seq),
        lane,
        bytes: row.slice(1..),
    })
}
