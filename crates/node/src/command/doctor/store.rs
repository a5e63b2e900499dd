//! Looks at the directory of the store: can it be written, and how long does a sync take.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steadfast_store_redb::{OpenError, RedbStore};

use super::Finding;
use crate::config::store::StoreOptions;
use crate::terminal::took;

/// Syncs that are measured.
const SYNCS: usize = 20;
/// Above this, every answer of the node takes long.
const SLOW: Duration = Duration::from_millis(20);
/// Below this nothing can have reached a disk of any kind.
const TOO_FAST: Duration = Duration::from_micros(15);

/// Looks without opening the store: a node may have it.
pub(super) async fn look(options: &StoreOptions) -> Vec<Finding> {
    let path = options.path.clone();
    let measured = tokio::task::spawn_blocking(move || measure(&path)).await;
    let shown = options.path.display();
    let mut findings = Vec::new();
    match measured {
        Ok(Ok(median)) => findings.push(judged(&shown.to_string(), median)),
        Ok(Err(error)) => findings.push(Finding::bad(
            "store",
            format!("{shown} cannot be written: {error}"),
            "make the directory and give it to the user that runs the node, or change store.path",
        )),
        Err(error) => findings.push(Finding::bad(
            "store",
            format!("{shown} was not looked at: {error}"),
            "try again",
        )),
    }
    if let Some(finding) = file(options.path.clone()).await {
        findings.push(finding);
    }
    if !options.require_fsync {
        findings.push(Finding::doubtful(
            "store",
            "acknowledged writes may be lost when the machine loses power",
            "set store.require_fsync = true",
        ));
    }
    findings.push(Finding::doubtful(
        "store",
        "one copy on one disk",
        "keep copies of the directory elsewhere, or run several nodes on store.kind = \"nats\"",
    ));
    findings
}

/// Opens the file that is there, if no node has it. Nothing is made and nothing sessions see changes.
async fn file(path: PathBuf) -> Option<Finding> {
    if !path.join("store.redb").is_file() {
        return None;
    }
    let opened = tokio::task::spawn_blocking(move || {
        RedbStore::open(&path, steadfast_store_redb::Options::default())
    });
    Some(match opened.await {
        Ok(Ok(store)) => match store.close().await {
            Ok(()) => Finding::good("store", "its file can be opened"),
            Err(error) => {
                Finding::bad("store", error.to_string(), "start the node and see its log")
            }
        },
        Ok(Err(error @ OpenError::InUse { .. })) => Finding::doubtful(
            "store",
            format!("its file was not looked at: {error}"),
            "a node that runs has opened it, so it can be opened",
        ),
        Ok(Err(error)) => Finding::bad(
            "store",
            error.to_string(),
            "put a copy of the data folder in its place, or choose another store.path; see Operating in the README",
        ),
        Err(error) => Finding::bad("store", error.to_string(), "try again"),
    })
}

fn judged(shown: &str, median: Duration) -> Finding {
    let micros = u64::try_from(median.as_micros()).unwrap_or(u64::MAX);
    let time = match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => took(micros / 1_000),
    };
    let found = format!("{shown} can be written; a sync takes {time}");
    if median > SLOW {
        Finding::doubtful(
            "store",
            found,
            "every decision waits for one sync: use a faster disk",
        )
    } else if median < TOO_FAST {
        Finding::doubtful(
            "store",
            found,
            "that is too fast for a disk: the file system may not sync at all (tmpfs?)",
        )
    } else {
        Finding::good("store", found)
    }
}

/// The median time of small synced writes in the directory, or in the nearest one above that is
/// there.
fn measure(path: &Path) -> io::Result<Duration> {
    let directory = existing(path);
    let probe = directory.join(format!(".steadfast-doctor-{}", std::process::id()));
    let result = write_and_sync(&probe);
    // The result of the measurement is worth more than a left-over file.
    let _ = fs::remove_file(&probe);
    let mut times = result?;
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn write_and_sync(probe: &Path) -> io::Result<Vec<Duration>> {
    let mut file = File::create(probe)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find(|ancestor| ancestor.is_dir());
    there.unwrap_or(&absolute).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::Health;

    #[tokio::test]
    async fn a_directory_that_can_be_written_is_measured_and_left_clean() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            path: directory.path().join("not/yet"),
            ..StoreOptions::default()
        };
        let findings = look(&options).await;
        assert!(
            findings.iter().all(|finding| finding.health != Health::Bad),
            "{findings:?}"
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_written_is_bad() {
        let options = StoreOptions {
            path: PathBuf::from("/proc/steadfast"),
            ..StoreOptions::default()
        };
        let findings = look(&options).await;
        assert_eq!(findings[0].health, Health::Bad);
        assert!(findings[0].remedy.is_some());
    }
}
