//! Rules of `[node]`, `[api]` and `[telemetry]`.

use std::net::SocketAddr;

use steadfast_runtime::WebhookSecret;
use tracing_subscriber::EnvFilter;

use super::{http_url, is_plain_name, readable};
use crate::config::Config;
use crate::config::key_path::KeyPath;
use crate::config::node::Role;
use crate::config::problem::Problem;
use crate::config::secret::Secret;
use crate::config::store::StoreKind;

/// Leaves room for the id that each start adds.
const NODE_NAME_CHARS_MAX: usize = 40;

pub(super) fn check(config: &Config, problems: &mut Vec<Problem>) {
    if let Some(name) = &config.node.name
        && !is_plain_name(name, NODE_NAME_CHARS_MAX)
    {
        let path = KeyPath::from(["node", "name"]);
        let title = format!("`{path}`: expected 1 to {NODE_NAME_CHARS_MAX} of [A-Za-z0-9_-]");
        problems.push(Problem::value(path, title));
    }
    roles(config, problems);
    listen(config, problems);
    for (position, key) in config.api.keys.iter().enumerate() {
        let path = KeyPath::from(["api", "keys"]).join(position);
        readable(&path.join("key"), &key.key, problems);
        if !is_plain_name(&key.tenant, 64) {
            let at = path.join("tenant");
            let title = format!("`{at}`: a tenant is 1 to 64 of [A-Za-z0-9_-]");
            problems.push(Problem::value(at, title));
        }
    }
    if let Some(webhooks) = &config.webhooks {
        let path = KeyPath::from(["webhooks"]);
        http_url(&path.join("url"), &webhooks.url, problems);
        secret(&path.join("secret"), &webhooks.secret, problems);
    }
    if let Err(error) = EnvFilter::builder().parse(&config.telemetry.log) {
        let path = KeyPath::from(["telemetry", "log"]);
        let title = format!("`{path}`: {error}");
        problems
            .push(Problem::value(path, title).help("for example: info,steadfast_runtime=debug"));
    }
    if let Some(endpoint) = &config.telemetry.otlp_endpoint {
        let path = KeyPath::from(["telemetry", "otlp_endpoint"]);
        http_url(&path, endpoint, problems);
        if endpoint.starts_with("https://") {
            let title = format!("`{path}`: traces are exported without TLS in this build");
            problems.push(
                Problem::value(path, title).help("run a collector on this host and use http://"),
            );
        }
    }
}

/// A secret that can be read and has the form of one.
fn secret(path: &KeyPath, secret: &Secret, problems: &mut Vec<Problem>) {
    match secret.read() {
        Ok(text) => {
            if let Err(error) = WebhookSecret::new(text.expose()) {
                let title = format!("`{path}`: what {secret} holds is none: {error}");
                problems.push(
                    Problem::value(path.clone(), title)
                        .help("make one: echo \"whsec_$(openssl rand -base64 32)\""),
                );
            }
        }
        Err(_) => readable(path, secret, problems),
    }
}

fn roles(config: &Config, problems: &mut Vec<Problem>) {
    if config.store.kind != StoreKind::Redb {
        return;
    }
    for (role, name) in [(Role::Api, "api"), (Role::Driver, "driver")] {
        if !config.node.has(role) {
            let path = KeyPath::from(["node", "roles"]);
            let title = format!("`{path}`: a node with a store of its own needs the role `{name}`");
            let help = "no other node is at its store, so it must do everything itself";
            problems.push(Problem::value(path, title).help(help));
        }
    }
}

fn listen(config: &Config, problems: &mut Vec<Problem>) {
    let path = KeyPath::from(["node", "listen"]);
    let Ok(address) = config.node.listen.parse::<SocketAddr>() else {
        let title =
            format!("`{path}`: expected an IP address and a port, such as \"127.0.0.1:7070\"");
        let label = format!("found \"{}\"", config.node.listen);
        problems.push(Problem::value(path, title).label(label));
        return;
    };
    if !address.ip().is_loopback() && config.api.keys.is_empty() {
        let title = format!(
            "`{path}`: without API keys anybody who reaches {address} could run your agents"
        );
        problems.push(
            Problem::value(path, title)
                .label("not a loopback address")
                .help("add a section [[api.keys]], or listen on 127.0.0.1"),
        );
    }
}
