//! What a durable write costs on this disk.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::percentile::Times;

/// Overwrites 512 bytes and syncs them, again and again.
pub(crate) fn sync_times(folder: &Path) -> Result<Times> {
    const WRITES: usize = 300;
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Times::default();
    for _ in 0..WRITES {
        let start = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&[7; 512])?;
        file.sync_data()?;
        times.add(start.elapsed());
    }
    Ok(times)
}
