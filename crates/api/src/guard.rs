//! Keeps web pages of other sites away from a node without keys.
//!
//! A page anywhere can make a browser on this machine send requests to a loopback address, directly
//! or by a name that its own DNS resolves to 127.0.0.1. The browser then sends the page's `Origin`
//! and the name it believes in as `Host`; both must be this machine's own.

use axum::http::{HeaderMap, Uri, header};

use crate::error::{ErrorCode, Problem};
use crate::options::Options;

/// Checks `Host` and `Origin` of a request to a node without keys.
pub(crate) fn check(options: &Options, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter().peekable();
    if hosts.peek().is_none() && uri.host().is_none() {
        return Err(host_not_allowed("the request has no `Host` header"));
    }
    let named = hosts.map(|value| value.to_str().ok());
    let absolute = uri.authority().map(|authority| Some(authority.as_str()));
    for host in named.chain(absolute) {
        if !host.is_some_and(|host| is_own(host) || is_listed(&options.hosts_allowed, host)) {
            return Err(host_not_allowed(
                "without API keys the `Host` header must name this machine: \
                 use 127.0.0.1 or localhost, or list the host in the configuration",
            ));
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin.to_str().is_ok_and(|origin| {
            let host = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            host.is_some_and(is_own) || is_listed(&options.origins_allowed, origin)
        });
        if !own {
            return Err(Problem::new(
                ErrorCode::OriginNotAllowed,
                "without API keys only pages of this machine may call; \
                 list the origin in the configuration to allow it",
            )
            .with_field("origin"));
        }
    }
    Ok(())
}

fn host_not_allowed(detail: &str) -> Problem {
    Problem::new(ErrorCode::HostNotAllowed, detail).with_field("host")
}

fn is_listed(list: &[String], value: &str) -> bool {
    list.iter().any(|entry| entry.eq_ignore_ascii_case(value))
}

/// Whether a host, with or without port, is a name that no foreign DNS can give away.
fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if is_port(port) => address,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(host: &[&str], origin: Option<&str>) -> Result<(), ErrorCode> {
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let options = Options {
            hosts_allowed: vec!["box.lan:7070".into()],
            origins_allowed: vec!["https://app.example".into()],
            ..Options::default()
        };
        check(&options, &Uri::from_static("/v1/sessions"), &headers)
            .map_err(|problem| problem.code())
    }

    #[test]
    fn hosts_of_this_machine_pass() {
        for host in [
            "localhost",
            "LOCALHOST:7070",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.8.8.8:1",
            "[::1]",
            "[::1]:7070",
            "box.lan:7070",
        ] {
            assert_eq!(ask(&[host], None), Ok(()), "{host}");
        }
    }

    #[test]
    fn names_that_foreign_dns_could_give_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:80@evil.example",
            "[::1]evil",
            "[::1",
            "0.0.0.0",
            "10.0.0.1",
            "box.lan",
            "",
        ] {
            assert_eq!(ask(&[host], None), Err(ErrorCode::HostNotAllowed), "{host}");
        }
        let two = ask(&["localhost", "evil.example"], None);
        assert_eq!(two, Err(ErrorCode::HostNotAllowed));
        assert_eq!(ask(&[], None), Err(ErrorCode::HostNotAllowed));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for origin in [
            "http://localhost:3000",
            "https://[::1]",
            "https://app.example",
        ] {
            assert_eq!(ask(&["localhost"], Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
        ] {
            let refused = Err(ErrorCode::OriginNotAllowed);
            assert_eq!(ask(&["localhost"], Some(origin)), refused, "{origin}");
        }
    }
}
