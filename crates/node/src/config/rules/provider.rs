//! Rules of `[providers]`.

use super::{http_url, is_plain_name, readable, text_or_secret};
use crate::config::key_path::KeyPath;
use crate::config::problem::Problem;
use crate::config::provider::{ProviderKind, ProviderOptions};

pub(super) fn check(
    path: &KeyPath,
    provider: &ProviderOptions,
    used: bool,
    problems: &mut Vec<Problem>,
) {
    if !is_plain_name(path.last(), 64) {
        let title = format!("`{path}`: a provider's name is 1 to 64 of [A-Za-z0-9_-]");
        problems.push(Problem::key(path.clone(), title));
    }
    if let Some(url) = &provider.base_url {
        http_url(&path.join("base_url"), url, problems);
    }
    // Who is not asked needs no key: an example may name providers that one does not have.
    if !used {
        return;
    }
    for (name, value) in &provider.headers {
        text_or_secret(&path.join("headers").join(name), value, problems);
    }
    match &provider.api_key {
        Some(secret) => readable(&path.join("api_key"), secret, problems),
        None if provider.base_url.is_none() && provider.kind != ProviderKind::Scripted => {
            let title = format!("`{path}`: `api_key` is missing");
            problems.push(
                Problem::key(path.clone(), title)
                    .label("the public API needs a key")
                    .help("add for example: api_key = \"env:PROVIDER_API_KEY\""),
            );
        }
        None => {}
    }
}
