//! Claims in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::claims::{Claimed, Claims};
use crate::error::WriteError;
use crate::local::lock;

/// Claims in memory; none is ever forgotten.
#[derive(Debug, Default)]
pub struct MemoryClaims {
    holders: Mutex<BTreeMap<String, String>>,
}

#[async_trait]
impl Claims for MemoryClaims {
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError> {
        let mut holders = lock(&self.holders);
        let stands = holders
            .entry(key.to_owned())
            .or_insert_with(|| holder.to_owned());
        Ok(if stands == holder {
            Claimed::Mine
        } else {
            Claimed::Other(stands.clone())
        })
    }
}
