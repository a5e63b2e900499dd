//! The data folder: one process at a time, and durable as a folder.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::open::OpenError;

/// The lock on a folder; given free when dropped, or when the process ends in any way.
#[derive(Debug)]
pub(crate) struct FolderLock {
    /// The system's lock is on this open file, so a file that is left over means nothing.
    file: File,
}

impl FolderLock {
    /// Locks the folder, which is made when it is not there.
    pub(crate) fn take(folder: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Folder {
            folder: folder.to_path_buf(),
            source,
        };
        make(folder).map_err(failed)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("lock"))
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    folder: folder.to_path_buf(),
                    holder: holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        write_holder(&mut file, Some(std::process::id())).map_err(failed)?;
        Ok(Self { file })
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Only for people who look into the file: the lock itself ends with the open file.
        if let Err(error) = write_holder(&mut self.file, None) {
            tracing::debug!(%error, "the lock file keeps the number of this process");
        }
    }
}

/// Makes the folder, and makes sure that it is still there after a loss of power.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    match folder.canonicalize()?.parent() {
        Some(parent) => sync(parent),
        None => Ok(()),
    }
}

/// Makes sure that the names of the files in a folder are still there after a loss of power.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    // Windows has no such call; it keeps names with the files.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The file of a store within its folder.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("store.redb")
}

fn write_holder(file: &mut File, process: Option<u32>) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    if let Some(process) = process {
        writeln!(file, "{process}")?;
    }
    Ok(())
}

/// The process that holds the lock, as far as it has said so.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
