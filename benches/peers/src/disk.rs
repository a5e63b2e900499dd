//! What a durable write costs on this disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

/// Median milliseconds of overwriting 512 bytes and syncing them.
pub(crate) fn sync_ms(folder: &Path) -> Result<f64> {
    const WRITES: usize = 200;
    let file = tempfile::NamedTempFile::new_in(folder)?;
    let mut file: &File = file.as_file();
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let start = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&[7; 512])?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[WRITES / 2])
}
