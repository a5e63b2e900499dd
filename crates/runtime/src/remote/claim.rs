//! Claims a `never` run for one delivery of its job.

use steadfast_store::claims::{Claimed, Claims};
use steadfast_store::error::WriteError;

use super::options::WorkerOptions;

/// Whether this delivery may run the job. `Err`: the store refuses to say, so it may not.
///
/// Tries until there is an answer: without one nothing may be done. Its caller bounds it.
pub(super) async fn claim(
    claims: &dyn Claims,
    key: &str,
    holder: &str,
    options: &WorkerOptions,
) -> Result<bool, String> {
    let mut tries = 0;
    loop {
        match claims.claim(key, holder).await {
            Ok(Claimed::Mine) => return Ok(true),
            Ok(Claimed::Other(other)) => {
                tracing::info!(key, other, "job dropped: it was claimed before");
                return Ok(false);
            }
            Err(WriteError::Refused(detail)) => return Err(detail),
            Err(error) => {
                tries += 1;
                tracing::warn!(key, tries, %error, "not claimed, again");
                tokio::time::sleep(options.wait(tries)).await;
            }
        }
    }
}
