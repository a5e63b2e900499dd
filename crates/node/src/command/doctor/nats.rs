//! Looks at the broker, without making anything there.

use steadfast_store_nats::NatsStore;

use super::Finding;
use crate::config::store::StoreOptions;
use crate::wiring::nats;

pub(super) async fn look(options: &StoreOptions) -> Vec<Finding> {
    let nats = match nats::options(options) {
        Ok(nats) => nats,
        Err(error) => {
            let remedy = "put the secret where the configuration says that it is";
            return vec![Finding::bad("store", error.to_string(), remedy)];
        }
    };
    let seen = match NatsStore::look(&nats).await {
        Ok(seen) => seen,
        Err(error) => {
            let remedy = "see the message; nothing was changed at the broker";
            return vec![Finding::bad("store", error.to_string(), remedy)];
        }
    };
    let mut findings = vec![Finding::good("store", seen.server)];
    let missing = seen.missing.len();
    if missing > 0 {
        let found = format!("{missing} streams and consumers are not there yet");
        findings.push(Finding::good(
            "store",
            format!("{found}; the first node makes them"),
        ));
    } else {
        findings.push(Finding::good("store", "all streams stand as wanted"));
    }
    match seen.guarantee {
        Ok(guarantee) => {
            let synced = if guarantee.fsync {
                "after it is synced to disk"
            } else {
                "before it is synced to disk"
            };
            let found = format!(
                "the broker acknowledges a write {synced}, on {} servers",
                guarantee.replicas
            );
            findings.push(if guarantee.fsync {
                Finding::good("store", found)
            } else {
                Finding::doubtful(
                    "store",
                    found,
                    "set store.require_fsync = true, and `sync_interval: always` at the servers",
                )
            });
        }
        Err(error) => findings.push(Finding::bad(
            "store",
            error.to_string(),
            "a node with this configuration does not start",
        )),
    }
    if options.nats.replicas < 3 {
        findings.push(Finding::doubtful(
            "store",
            format!(
                "{} copies survive no loss of a server",
                options.nats.replicas
            ),
            "run three servers and set store.nats.replicas = 3 before the first start",
        ));
    }
    findings
}
