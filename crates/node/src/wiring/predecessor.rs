//! Which process this one replaces, kept in the data folder: its sessions need not wait until other
//! nodes notice that it is gone.
//!
//! The file is locked as long as the process lives. So what it names is a process that ended, or, in
//! a copied folder, one whose own door will say that it lives.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use steadfast_core::id::NodeId;

/// Name of the file.
const FILE: &str = "node";

/// This process's place in its data folder.
pub(crate) struct Place {
    /// The process that had it before.
    pub(crate) predecessor: Option<NodeId>,
    /// Held until the process ends.
    _lock: Option<File>,
}

impl Place {
    /// No place: nothing is known of an earlier process, and nothing is left for a later one.
    pub(crate) fn none() -> Self {
        Self {
            predecessor: None,
            _lock: None,
        }
    }

    /// Takes the place in this folder. A node without one starts all the same: then the sessions of
    /// the process before it are found by its silence.
    pub(crate) fn take(folder: &Path, node: &NodeId) -> Self {
        match try_take(folder, node) {
            Ok(Some(place)) => place,
            Ok(None) => {
                tracing::warn!(
                    folder = %folder.display(),
                    "another process has this data folder: give each node a store.path of its own, \
                     or its restarts take some seconds longer"
                );
                Self::none()
            }
            Err(error) => {
                tracing::info!(
                    folder = %folder.display(), %error,
                    "the name of this process is not kept: its restarts take some seconds longer"
                );
                Self::none()
            }
        }
    }
}

/// `None`: another process has it.
fn try_take(folder: &Path, node: &NodeId) -> io::Result<Option<Place>> {
    fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(folder.join(FILE))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut before = String::new();
    // What is no name, such as half of one, names nobody.
    let readable = file.read_to_string(&mut before).is_ok();
    let predecessor = readable.then(|| NodeId::new(before.trim()).ok()).flatten();
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    writeln!(file, "{node}")?;
    file.sync_all()?;
    Ok(Some(Place {
        predecessor,
        _lock: Some(file),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn each_process_learns_the_name_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/yet");
        let first = Place::take(&path, &node("n1-a"));
        assert_eq!(first.predecessor, None);
        drop(first);
        let second = Place::take(&path, &node("n1-b"));
        assert_eq!(second.predecessor, Some(node("n1-a")));
        drop(second);
        let third = Place::take(&path, &node("n1-c"));
        assert_eq!(third.predecessor, Some(node("n1-b")));
    }

    #[test]
    fn a_process_that_lives_is_nobodys_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let lives = Place::take(folder.path(), &node("n1-a"));
        assert_eq!(Place::take(folder.path(), &node("n2-a")).predecessor, None);
        drop(lives);
        // The second one left no name.
        let next = Place::take(folder.path(), &node("n1-b"));
        assert_eq!(next.predecessor, Some(node("n1-a")));
    }

    #[test]
    fn a_file_that_names_nobody_and_a_folder_that_cannot_be_had_are_no_reason_not_to_start() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), [0xff, 0xfe]).unwrap();
        let place = Place::take(folder.path(), &node("n1-a"));
        assert_eq!(place.predecessor, None);
        let place = Place::take(Path::new("/proc/steadfast"), &node("n1-a"));
        assert_eq!(place.predecessor, None);
    }
}
