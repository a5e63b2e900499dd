//! Claims on JetStream: a bucket in which a key is written once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_store::claims::{CLAIM_KEPT_MIN, Claimed, Claims};
use steadfast_store::error::WriteError;
use tokio::time::sleep;

use crate::fault::code;
use crate::headers;
use crate::request::Shared;
use crate::subject::Names;

/// Name of the bucket.
pub(crate) const BUCKET: &str = "CLAIMS";
/// How long a claim stands: a day longer than it must.
pub(crate) const KEPT: Duration = CLAIM_KEPT_MIN.saturating_add(Duration::from_secs(86_400));
/// Looks for the holder of a claim whose write is not decided yet.
const LOOKS_MAX: u32 = 50;
const LOOK_DELAY: Duration = Duration::from_millis(20);

/// [`Claims`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsClaims {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsClaims {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }
}

#[async_trait]
impl Claims for NatsClaims {
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError> {
        if !is_key(key) {
            return Err(WriteError::Refused(format!("{key} is no key of a claim")));
        }
        let stream = self.names.bucket_stream(BUCKET);
        let subject = self.names.bucket_key(BUCKET, key);
        let mut conflicts = 0;
        loop {
            let map = headers::map(&[(headers::EXPECTED, &0)]);
            let bytes = Bytes::copy_from_slice(holder.as_bytes());
            let fault = match self.connection.publish(&subject, map, bytes).await {
                Ok(_) => return Ok(Claimed::Mine),
                Err(fault) => fault,
            };
            match fault.code() {
                Some(code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_IN_FLIGHT) => {}
                Some(_) | None => return Err(fault.into()),
            }
            // An earlier try of this holder may be what stands there.
            if let Some(message) = self.connection.last(&stream, &subject).await? {
                let stands = String::from_utf8_lossy(&message.payload).into_owned();
                return Ok(if stands == holder {
                    Claimed::Mine
                } else {
                    Claimed::Other(stands)
                });
            }
            conflicts += 1;
            if conflicts >= LOOKS_MAX {
                return Err(WriteError::Unknown(fault.to_string()));
            }
            // Another write is in flight, and nothing tells when it is decided.
            sleep(LOOK_DELAY).await;
        }
    }
}

/// Words of `[A-Za-z0-9_-]` with dots between.
fn is_key(key: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    key.split('.')
        .all(|word| !word.is_empty() && word.bytes().all(plain))
}
