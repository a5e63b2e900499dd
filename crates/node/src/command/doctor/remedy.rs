//! What to do about a model that did not answer.

use crate::config::provider::ProviderOptions;

/// The remedy for a failure with this code.
pub(super) fn of(code: &str, name: &str, model: &str, options: &ProviderOptions) -> String {
    let section = format!("[providers.{name}]");
    let key = match &options.api_key {
        Some(place) => format!("the key in {place}"),
        None => format!("api_key of {section}, which is not set"),
    };
    let address = match &options.base_url {
        Some(url) => format!("base_url of {section} ({url})"),
        None => format!("base_url of {section}, by default the provider's public address"),
    };
    match code {
        "unauthorized" => format!("the provider knows no such key: replace {key}"),
        "forbidden" => {
            format!(
                "the key may not use {model}: give it the right to, replace {key}, or set another model"
            )
        }
        "not_found" => format!(
            "set model of the agent to one that the provider has, as \"{name}/MODEL\"; if {model} is \
             right, check the path in {address}: openai kinds include /v1"
        ),
        "name_not_found" => {
            format!(
                "no such host: check its spelling in {address}, and this machine's name resolution"
            )
        }
        "connection_refused" => {
            format!("nobody listens there: start the server, or check host and port in {address}")
        }
        "tls_failed" => format!(
            "no TLS with it: check https against http in {address}, this machine's clock, and that \
             whoever signed the server's certificate is trusted here"
        ),
        "connect_timeout" | "unreachable" => {
            format!("no connection: check {address}, and a firewall or proxy between")
        }
        "silent" | "timeout" => format!(
            "it was reached and did not answer in time: try again, or raise silence_timeout of \
             {section}"
        ),
        "rate_limited" => {
            "key and model are right, the provider lets no more requests in now: wait, \
             or ask it for a higher limit"
                .to_owned()
        }
        "insufficient_quota" | "payment_required" => {
            format!("the account has nothing left to spend: add to it, or replace {key}")
        }
        "server_error" | "overloaded" | "broken_stream" => {
            "the provider itself is in trouble: try again later".to_owned()
        }
        "redirected" => format!("put the address that it redirects to in {address}"),
        _ => format!("check kind, api_key and {address}, and model of the agent"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::provider::ProviderKind;
    use crate::config::secret::Secret;

    #[test]
    fn each_failure_has_a_remedy_of_its_own_that_names_its_setting() {
        let mut options = ProviderOptions::new(ProviderKind::OpenaiChat);
        options.api_key = Some(Secret::Env("MY_KEY".into()));
        options.base_url = Some("http://127.0.0.1:9/v1".into());
        let mut seen = std::collections::BTreeSet::new();
        for (code, named) in [
            ("unauthorized", "env:MY_KEY"),
            ("forbidden", "m-1"),
            ("not_found", "\"local/MODEL\""),
            ("name_not_found", "http://127.0.0.1:9/v1"),
            ("connection_refused", "http://127.0.0.1:9/v1"),
            ("tls_failed", "https"),
            ("connect_timeout", "firewall"),
            ("silent", "silence_timeout of [providers.local]"),
            ("rate_limited", "limit"),
            ("insufficient_quota", "env:MY_KEY"),
            ("server_error", "later"),
            ("redirected", "http://127.0.0.1:9/v1"),
            ("bad_request", "model of the agent"),
        ] {
            let remedy = of(code, "local", "m-1", &options);
            assert!(remedy.contains(named), "{code}: {remedy}");
            assert!(seen.insert(remedy), "{code}");
        }
        options.api_key = None;
        let remedy = of("unauthorized", "local", "m-1", &options);
        assert!(
            remedy.contains("api_key of [providers.local], which is not set"),
            "{remedy}"
        );
    }
}
