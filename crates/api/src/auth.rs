//! Who asks, and what they may do.
//!
//! With keys: each request but the probes carries `Authorization: Bearer <key>`; the key names the
//! tenant. Without keys: only this machine is served, as the operator of tenant `default`, and
//! [`crate::guard`] keeps foreign web pages out.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, header};
use steadfast_core::id::TenantId;

use crate::error::{ErrorCode, Problem};

/// Who may ask.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Nobody but this machine, which may do everything.
    #[default]
    Loopback,
    /// Who has one of these keys.
    Keys(Vec<ApiKey>),
}

/// One API key; only its hash is kept.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Whose sessions it opens.
    pub tenant: TenantId,
    /// BLAKE3 hash of the key.
    pub hash: blake3::Hash,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
}

/// One thing that a key may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read sessions and agents.
    Read,
    /// Send commands to sessions.
    Write,
    /// Settle calls in doubt, repair sessions.
    Operate,
    /// Read the node's metrics.
    Metrics,
}

impl Scope {
    /// Its name in the configuration and in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Operate => "operate",
            Self::Metrics => "metrics",
        }
    }

    /// The scope of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Operate, Self::Metrics]
            .into_iter()
            .find(|scope| scope.name() == name)
    }
}

/// The address that a request came from; put in by whoever accepts connections.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
    scopes: BTreeSet<Scope>,
}

impl Caller {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    pub(crate) fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::ScopeMissing,
            format!("this needs an API key with the scope `{}`", scope.name()),
        ))
    }
}

/// The scope that every request of a method needs, whatever its route.
pub(crate) fn scope_of(method: &Method) -> Scope {
    if method == Method::GET || method == Method::HEAD {
        Scope::Read
    } else {
        Scope::Write
    }
}

/// Finds out who asks.
pub(crate) fn identify(
    auth: &Auth,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    match auth {
        Auth::Loopback => loopback(peer),
        Auth::Keys(keys) => by_key(keys, headers),
    }
}

fn loopback(peer: Option<Peer>) -> Result<Caller, Problem> {
    // Without an address nothing shows that the request is from here.
    let local = peer.is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    let tenant = TenantId::new("default").ok();
    match (local, tenant) {
        (true, Some(tenant)) => Ok(Caller {
            tenant,
            scopes: [Scope::Read, Scope::Write, Scope::Operate, Scope::Metrics].into(),
        }),
        _ => Err(Problem::new(
            ErrorCode::LoopbackOnly,
            "no API keys are configured, so only requests from this machine are served",
        )),
    }
}

fn by_key(keys: &[ApiKey], headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(unauthorized(
            "send one header `Authorization: Bearer <key>`",
        ));
    };
    let bearer = value.to_str().ok().and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let Some(key) = bearer.filter(|key| !key.is_empty()) else {
        return Err(unauthorized(
            "the header must read `Authorization: Bearer <key>`",
        ));
    };
    let hash = blake3::hash(key.as_bytes());
    // Hashes compare in constant time, and all of them are compared: time tells nothing.
    let mut found = None;
    for candidate in keys {
        if candidate.hash == hash {
            found = Some(candidate);
        }
    }
    match found {
        Some(key) => Ok(Caller {
            tenant: key.tenant.clone(),
            scopes: key.scopes.clone(),
        }),
        None => Err(unauthorized("the API key is not known")),
    }
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(ErrorCode::Unauthorized, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, key: &str, scopes: &[Scope]) -> ApiKey {
        ApiKey {
            tenant: TenantId::new(tenant).unwrap(),
            hash: blake3::hash(key.as_bytes()),
            scopes: scopes.iter().copied().collect(),
        }
    }

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    fn code(result: Result<Caller, Problem>) -> Result<String, ErrorCode> {
        result
            .map(|caller| caller.tenant.to_string())
            .map_err(|problem| problem.code())
    }

    #[test]
    fn the_key_names_the_tenant() {
        let auth = Auth::Keys(vec![
            key("acme", "k1", &[Scope::Read]),
            key("other", "k2", &[Scope::Read, Scope::Write]),
        ]);
        let ask = |values: &[&str]| code(identify(&auth, &headers(values), None));
        assert_eq!(ask(&["Bearer k1"]), Ok("acme".into()));
        assert_eq!(ask(&["bearer  k2 "]), Ok("other".into()));
        let refused = Err(ErrorCode::Unauthorized);
        for values in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic k1"],
            &["Bearer k3"],
            &["k1"],
            &["Bearer k1", "Bearer k2"],
        ] {
            assert_eq!(ask(values), refused, "{values:?}");
        }
    }

    #[test]
    fn without_keys_only_this_machine_is_served() {
        let ask = |peer: Option<&str>| {
            let peer = peer.map(|address| Peer(address.parse().unwrap()));
            code(identify(&Auth::Loopback, &HeaderMap::new(), peer))
        };
        assert_eq!(ask(Some("127.0.0.1:1")), Ok("default".into()));
        assert_eq!(ask(Some("[::1]:1")), Ok("default".into()));
        assert_eq!(ask(Some("[::ffff:127.0.0.1]:1")), Ok("default".into()));
        assert_eq!(ask(Some("10.0.0.1:1")), Err(ErrorCode::LoopbackOnly));
        assert_eq!(ask(None), Err(ErrorCode::LoopbackOnly));
    }
}
