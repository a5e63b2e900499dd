//! How many streams may be open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use steadfast_core::id::TenantId;

use crate::error::{ErrorCode, Problem};
use crate::options::Limits;

/// Counts open streams, of the node and of each tenant.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_tenant: BTreeMap<TenantId, usize>,
}

/// One open stream; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: Arc<Streams>,
    tenant: TenantId,
}

impl Streams {
    /// Makes room for one more stream, if the limits allow.
    pub(crate) fn open(
        self: &Arc<Self>,
        limits: &Limits,
        tenant: &TenantId,
    ) -> Result<StreamPermit, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = open.by_tenant.get(tenant).copied().unwrap_or(0);
        if of_tenant >= limits.tenant_streams_max {
            let max = limits.tenant_streams_max;
            let detail = format!("a tenant may have {max} streams open on one node; close one");
            return Err(Problem::new(ErrorCode::TenantStreamsFull, detail));
        }
        if open.total >= limits.streams_max {
            let detail = "the node serves as many streams as it may; try another node or later";
            return Err(Problem::new(ErrorCode::StreamsFull, detail));
        }
        open.total += 1;
        open.by_tenant.insert(tenant.clone(), of_tenant + 1);
        Ok(StreamPermit {
            streams: Arc::clone(self),
            tenant: tenant.clone(),
        })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .total
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self
            .streams
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total = open.total.saturating_sub(1);
        let left = open.by_tenant.get_mut(&self.tenant).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            open.by_tenant.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_and_given_back() {
        let limits = Limits {
            streams_max: 2,
            tenant_streams_max: 1,
            ..Limits::default()
        };
        let streams = Arc::new(Streams::default());
        let tenant = |name: &str| TenantId::new(name).unwrap();
        let open = |name: &str| {
            streams
                .open(&limits, &tenant(name))
                .map_err(|problem| problem.code())
        };
        let first = open("a").unwrap();
        assert_eq!(open("a").unwrap_err(), ErrorCode::TenantStreamsFull);
        let second = open("b").unwrap();
        assert_eq!(open("c").unwrap_err(), ErrorCode::StreamsFull);
        drop(first);
        assert_eq!(streams.count(), 1);
        let third = open("c").unwrap();
        drop((second, third));
        assert_eq!(streams.count(), 0);
        assert!(streams.open.lock().unwrap().by_tenant.is_empty());
    }
}
