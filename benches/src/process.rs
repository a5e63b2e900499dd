//! CPU time and memory of a process, from the kernel's own count.

use anyhow::{Context, Result};

/// Ticks of the kernel's count; the same on every Linux that runs this.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: u64 = 4_096;

/// User and system seconds of a process so far.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The name, in brackets, may hold spaces; after it the state is field 3.
    let (_, rest) = text.rsplit_once(')').context("no name in the count")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| -> Result<f64> {
        let text = fields.get(field - 3).context("a short count")?;
        Ok(text.parse()?)
    };
    Ok((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

/// Bytes of this process that are in memory.
pub(crate) fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).context("a short count")?;
    Ok(pages.parse::<u64>()? * PAGE_BYTES)
}
