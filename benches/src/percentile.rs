//! Durations and their percentiles.

use std::time::Duration;

/// Durations in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// Adds one.
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1_000.0);
    }

    /// Adds all of another.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The percentile in milliseconds; not a number when there is none.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The median in milliseconds.
    pub(crate) fn p50_ms(&self) -> f64 {
        self.percentile_ms(50)
    }
}
