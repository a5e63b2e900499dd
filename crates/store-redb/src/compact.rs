//! Making the file of a stopped node small again.
//!
//! What was removed leaves room inside the file, which later writes use; the file itself never
//! shrinks by itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crate::database::{self, NotOpened, Opened};
use crate::fault::Fault;
use crate::folder::{self, FolderLock};
use crate::open::{OpenError, refused};
use crate::options::Options;
use crate::storage::{Seen, file_source};

/// How large a file was and is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes before.
    pub before_bytes: u64,
    /// Bytes after.
    pub after_bytes: u64,
}

/// Gives the room that the file in a data folder does not use back to the file system. Blocks; no
/// node may have the folder. Each step is a commit of its own, so it may be cut off at any time.
pub fn compact(data_folder: &Path) -> Result<Compacted, OpenError> {
    let file = folder::file(data_folder);
    let size = || {
        let metadata = std::fs::metadata(&file);
        metadata
            .map(|metadata| metadata.len())
            .map_err(|source| not_there(data_folder, source))
    };
    // Before the lock, which would make the folder.
    let before_bytes = size()?;
    let _lock = FolderLock::take(data_folder)?;
    let (source, seen) = (file_source(file.clone()), Arc::new(Seen::default()));
    let compacting = || {
        let cache_bytes = Options::default().cache_bytes;
        let Opened {
            mut database, view, ..
        } = database::open(&source, &seen, cache_bytes)?;
        // Pages that somebody may read are not moved.
        drop(view);
        database
            .compact()
            .map_err(|error| Fault::NotOpen(error.to_string()))?;
        Ok(())
    };
    catch_unwind(AssertUnwindSafe(compacting))
        .unwrap_or_else(|_| Err(NotOpened::Fault(Fault::panicked())))
        .map_err(|error| refused(&file, error))?;
    Ok(Compacted {
        before_bytes,
        after_bytes: size()?,
    })
}

fn not_there(folder: &Path, source: io::Error) -> OpenError {
    OpenError::Folder {
        folder: folder.to_path_buf(),
        source,
    }
}
