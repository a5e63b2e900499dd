//! Who may ask: configured keys, hashed as soon as they are read.

use steadfast_api::{ApiKey, Auth, Scope};
use steadfast_core::id::TenantId;

use crate::config::api::{ApiOptions, ScopeKind};
use crate::start_error::StartError;

/// Reads the keys.
pub(super) fn auth(options: &ApiOptions) -> Result<Auth, StartError> {
    if options.keys.is_empty() {
        return Ok(Auth::Loopback);
    }
    let mut keys = Vec::new();
    for (position, options) in options.keys.iter().enumerate() {
        let what = format!("api.keys[{position}]");
        let text = options
            .key
            .read()
            .map_err(|error| StartError::setup(&what, &error))?;
        keys.push(ApiKey {
            tenant: TenantId::new(options.tenant.clone())
                .map_err(|error| StartError::setup(&what, &error))?,
            hash: blake3::hash(text.expose().as_bytes()),
            scopes: options.scopes.iter().copied().map(scope).collect(),
        });
    }
    Ok(Auth::Keys(keys))
}

fn scope(kind: ScopeKind) -> Scope {
    match kind {
        ScopeKind::Read => Scope::Read,
        ScopeKind::Write => Scope::Write,
        ScopeKind::Operate => Scope::Operate,
        ScopeKind::Metrics => Scope::Metrics,
    }
}
