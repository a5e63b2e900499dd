//! Content of any size as messages: one when it is small, else pieces with the whole written last.
//!
//! ```text
//!   <subject>        the content itself, or only its size when it is in pieces
//!   <subject>.0 ...  the pieces, written before
//! ```

use async_nats::jetstream::message::StreamMessage;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::connect::Connection;
use crate::fault::Fault;
use crate::headers;

/// Bytes of a piece: well below what a broker takes for a message unless it is told otherwise.
pub(crate) const PIECE_BYTES_MAX: usize = 512 * 1024;
/// Pieces that are written at the same time.
const PIECES_IN_FLIGHT: usize = 4;

impl Connection {
    /// Writes a content; acknowledged as a whole.
    pub(crate) async fn put_content(&self, subject: &str, bytes: Bytes) -> Result<(), Fault> {
        let size = bytes.len();
        let head = if size <= PIECE_BYTES_MAX {
            bytes
        } else {
            let count = size.div_ceil(PIECE_BYTES_MAX);
            let pieces = (0..count).map(|position| {
                let begin = position * PIECE_BYTES_MAX;
                let piece = bytes.slice(begin..size.min(begin + PIECE_BYTES_MAX));
                let subject = format!("{subject}.{position}");
                async move {
                    self.publish(&subject, async_nats::HeaderMap::new(), piece)
                        .await
                }
            });
            let written = stream::iter(pieces).buffer_unordered(PIECES_IN_FLIGHT);
            written.try_for_each(|_| async { Ok(()) }).await?;
            Bytes::new()
        };
        let map = headers::map(&[(headers::SIZE, &size)]);
        self.publish(subject, map, head).await?;
        Ok(())
    }

    /// Reads a content; `None` when it, or a piece of it, is not there. The caller checks that the
    /// pieces are of one content.
    pub(crate) async fn get_content(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Bytes>, Fault> {
        let Some(head) = self.last(stream, subject).await? else {
            return Ok(None);
        };
        let Some(size) = size_in_pieces(&head) else {
            return Ok(Some(head.payload));
        };
        let count = size.div_ceil(PIECE_BYTES_MAX);
        let subjects: Vec<String> = (0..count).map(|n| format!("{subject}.{n}")).collect();
        let mut pieces = Vec::new();
        // A few at a time: more would not fit one answer, and be asked for one by one.
        for some in subjects.chunks(8) {
            pieces.extend(self.last_of_each(stream, some).await?);
        }
        let mut whole = BytesMut::with_capacity(size);
        for subject in &subjects {
            let Some(piece) = pieces.iter().find(|piece| piece.subject == *subject) else {
                return Ok(None);
            };
            whole.extend_from_slice(&piece.payload);
        }
        Ok(Some(whole.freeze()))
    }
}

/// Bytes of the whole when it is in pieces.
fn size_in_pieces(head: &StreamMessage) -> Option<usize> {
    let size = headers::number(&head.headers, headers::SIZE)?;
    let size = usize::try_from(size).ok()?;
    (size > PIECE_BYTES_MAX && head.payload.is_empty()).then_some(size)
}
