//! Rules of `[store]`.

use std::path::PathBuf;

use super::{http_url, readable};
use crate::config::Config;
use crate::config::key_path::KeyPath;
use crate::config::nats::{NatsOptions, addresses};
use crate::config::problem::Problem;
use crate::config::store::StoreKind;

pub(super) fn check(config: &Config, problems: &mut Vec<Problem>) {
    match config.store.kind {
        StoreKind::Redb => redb(config, problems),
        StoreKind::Nats => nats(config, problems),
    }
}

fn redb(config: &Config, problems: &mut Vec<Problem>) {
    if config.store.require_replicas > 1 {
        let path = KeyPath::from(["store", "require_replicas"]);
        let title = format!("`{path}`: a redb store is one copy on one disk");
        problems.push(
            Problem::value(path, title)
                .label("more than the store can promise")
                .help("set it to 1, and keep copies of the store's directory elsewhere"),
        );
    }
}

fn at(key: &str) -> KeyPath {
    KeyPath::from(["store", "nats"]).join(key)
}

fn nats(config: &Config, problems: &mut Vec<Problem>) {
    let nats = &config.store.nats;
    broker_url(nats, problems);
    let monitors: Vec<&str> = addresses(&nats.monitor_url).collect();
    for url in &monitors {
        http_url(&at("monitor_url"), url, problems);
    }
    if monitors.is_empty() && config.store.require_fsync {
        let path = at("monitor_url");
        let title = format!("`{path}`: without it nobody knows whether the broker syncs to disk");
        problems.push(Problem::value(path, title).help(
            "give the address of each server's monitoring page, or set store.require_fsync = false",
        ));
    }
    if config.store.require_replicas > nats.replicas {
        let path = KeyPath::from(["store", "require_replicas"]);
        let title = format!(
            "`{path}`: the streams are kept by {} servers (store.nats.replicas)",
            nats.replicas
        );
        problems.push(Problem::value(path, title).label("more than the store can promise"));
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if nats.prefix.is_empty() || !nats.prefix.chars().all(plain) {
        let path = at("prefix");
        let title = format!("`{path}`: expected one word of [a-z0-9_]");
        problems.push(Problem::value(path, title));
    }
    who(nats, problems);
    files(nats, problems);
}

fn broker_url(nats: &NatsOptions, problems: &mut Vec<Problem>) {
    const SCHEMES: [&str; 2] = ["nats://", "tls://"];
    let is_address = |url: &str| {
        let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains([' ', '/']))
    };
    let mut urls = addresses(&nats.url).peekable();
    let path = at("url");
    if urls.peek().is_none() || !urls.all(is_address) {
        let title = format!("`{path}`: expected addresses such as nats://127.0.0.1:4222");
        problems.push(Problem::value(path, title).label("no such address"));
    } else if nats.url.contains('@') {
        let title = format!("`{path}`: a secret is never written into the configuration");
        let help = "use store.nats.user and store.nats.password, or store.nats.token";
        problems.push(Problem::value(path, title).help(help));
    }
}

/// One way to say who this node is, and whole.
fn who(nats: &NatsOptions, problems: &mut Vec<Problem>) {
    let ways = [
        ("user", nats.user.is_some()),
        ("token", nats.token.is_some()),
        ("nkey", nats.nkey.is_some()),
        ("credentials_file", nats.credentials_file.is_some()),
    ];
    let mut chosen = ways.iter().filter(|(_, is_set)| *is_set);
    if let (Some((first, _)), Some((second, _))) = (chosen.next(), chosen.next()) {
        let path = at(second);
        let title = format!("`{path}`: `{first}` already says who this node is");
        problems.push(Problem::key(path, title).help("leave one of them out"));
    }
    if nats.user.is_some() != nats.password.is_some() {
        let (is, lacks) = if nats.user.is_some() {
            ("user", "password")
        } else {
            ("password", "user")
        };
        let path = at(is);
        let title = format!("`{path}`: `store.nats.{lacks}` is missing beside it");
        problems.push(Problem::key(path, title));
    }
    let secrets = [
        ("password", &nats.password),
        ("token", &nats.token),
        ("nkey", &nats.nkey),
    ];
    for (key, secret) in secrets {
        if let Some(secret) = secret {
            readable(&at(key), secret, problems);
        }
    }
}

fn files(nats: &NatsOptions, problems: &mut Vec<Problem>) {
    let files: [(&str, &Option<PathBuf>); 4] = [
        ("credentials_file", &nats.credentials_file),
        ("tls_authorities_file", &nats.tls_authorities_file),
        ("tls_certificate_file", &nats.tls_certificate_file),
        ("tls_key_file", &nats.tls_key_file),
    ];
    for (key, file) in files {
        if let Some(file) = file
            && let Err(error) = std::fs::File::open(file)
        {
            let path = at(key);
            let title = format!("`{path}`: {} could not be read: {error}", file.display());
            problems.push(Problem::value(path, title));
        }
    }
    if nats.tls_certificate_file.is_some() != nats.tls_key_file.is_some() {
        let path = at(if nats.tls_key_file.is_some() {
            "tls_key_file"
        } else {
            "tls_certificate_file"
        });
        let title = format!("`{path}`: a certificate and its key belong together");
        problems.push(Problem::key(path, title).help("give both, or neither"));
    }
}
