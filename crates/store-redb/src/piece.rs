//! Content of any size in rows of bounded size.
//!
//! The database keeps a row above a page in a run of pages whose length is a power of two, so one
//! row for 17 MiB would take 32. Pieces that just fit 64 KiB waste next to nothing.

use bytes::{Bytes, BytesMut};
use steadfast_core::content::BlobHash;
use steadfast_store::error::WriteError;

use crate::fault::Fault;
use crate::group::Group;
use crate::key::KeyRange;
use crate::sight::Sight;
use crate::table::TableName;

/// Bytes in a row, so that key, length and bytes fit 64 KiB.
const PIECE_BYTES: usize = 64 * 1024 - 512;

/// Room that is made ahead for content of a length that is only claimed.
const LENGTH_TRUSTED_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the hash and of the length that the first row begins with.
const HEAD_BYTES: usize = 32 + 8;

/// Bytes above which hashing would hold up the caller's thread.
const HASH_HERE_BYTES_MAX: usize = 256 * 1024;

/// The hash of content that is about to be written.
pub(crate) async fn hash(bytes: &Bytes) -> Result<BlobHash, WriteError> {
    if bytes.len() <= HASH_HERE_BYTES_MAX {
        return Ok(BlobHash::of(bytes));
    }
    let bytes = bytes.clone();
    tokio::task::spawn_blocking(move || BlobHash::of(&bytes))
        .await
        .map_err(|error| WriteError::Unavailable(error.to_string()))
}

/// Writes content at `key` and the keys that begin with it; nothing stands there.
pub(crate) fn put(
    group: &mut Group<'_>,
    name: TableName,
    key: &[u8],
    hash: BlobHash,
    bytes: &Bytes,
) {
    let mut rest = bytes.clone();
    let first = rest.split_to(PIECE_BYTES.min(rest.len()));
    let mut row = Vec::with_capacity(HEAD_BYTES + first.len());
    row.extend_from_slice(&hash.0);
    row.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    row.extend_from_slice(&first);
    group.put(name, key.to_vec(), row);
    let mut number = 1u32;
    while !rest.is_empty() {
        let piece = rest.split_to(PIECE_BYTES.min(rest.len()));
        group.put(name, piece_key(key, number), piece);
        number += 1;
    }
}

/// Content as far as it can be read at once.
pub(crate) enum Glance {
    /// All of it; `None`: there is none.
    Whole(Option<Bytes>),
    /// It is large.
    Large,
}

/// Reads content that stands in one row, which is little enough for any thread.
pub(crate) fn glance(sight: Sight<'_>, name: TableName, key: &[u8]) -> Result<Glance, Fault> {
    match sight.get(name, key)? {
        Some(row) if row.len() >= PIECE_BYTES => Ok(Glance::Large),
        _ => get(sight, name, key).map(Glance::Whole),
    }
}

/// Reads content, and checks its hash.
pub(crate) fn get(sight: Sight<'_>, name: TableName, key: &[u8]) -> Result<Option<Bytes>, Fault> {
    let Some(row) = sight.get(name, key)? else {
        return Ok(None);
    };
    let damaged = || Fault::Corrupt("content is not what was written".into());
    let (hash, rest) = row.split_first_chunk::<32>().ok_or_else(damaged)?;
    let (length, first) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| damaged())?;
    // The length is not trusted with memory: a flipped bit would ask for all of it.
    let mut bytes = BytesMut::with_capacity(length.min(LENGTH_TRUSTED_BYTES));
    bytes.extend_from_slice(first);
    if first.len() < length {
        let rest = KeyRange {
            first: piece_key(key, 1),
            end: piece_key(key, u32::MAX),
        };
        for row in sight.rows(name, &rest)? {
            bytes.extend_from_slice(&row?.value);
        }
    }
    if bytes.len() != length || BlobHash::of(&bytes) != BlobHash(*hash) {
        return Err(damaged());
    }
    Ok(Some(bytes.freeze()))
}

/// Removes content that [`put`] wrote at `key`.
pub(crate) fn remove(group: &mut Group<'_>, name: TableName, key: &[u8]) -> Result<bool, Fault> {
    let all = KeyRange {
        first: key.to_vec(),
        end: piece_key(key, u32::MAX),
    };
    Ok(group.remove_some(name, &all, usize::MAX)?.rows > 0)
}

fn piece_key(key: &[u8], number: u32) -> Vec<u8> {
    let mut piece = key.to_vec();
    piece.extend_from_slice(&number.to_be_bytes());
    piece
}
