//! Whether the webhook is there. It is sent no event: nothing has happened.

use std::error::Error;
use std::time::Duration;

use super::Finding;
use crate::config::Config;

const SUBJECT: &str = "webhook";
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for the head of the address: any answer says that somebody is there.
pub(super) async fn look(config: &Config) -> Option<Finding> {
    let webhooks = config.webhooks.as_ref()?;
    let url = &webhooks.url;
    crate::tls::install();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build();
    let answer = match client {
        Ok(client) => client.head(url).send().await,
        Err(error) => Err(error),
    };
    Some(match answer {
        Ok(answer) if answer.status().is_redirection() => Finding::bad(
            SUBJECT,
            format!(
                "{url} leads elsewhere ({}), and events do not follow",
                answer.status()
            ),
            "set webhooks.url to the address that it leads to",
        ),
        Ok(answer) if answer.status() == reqwest::StatusCode::NOT_FOUND => Finding::doubtful(
            SUBJECT,
            format!("{url} answers 404"),
            "check the path in webhooks.url; this is fine where only POST has an answer",
        ),
        Ok(_) if is_plain(url) => Finding::doubtful(
            SUBJECT,
            format!("{url} answers, without TLS"),
            "events are signed but can be read on the way: use https:// outside of this machine",
        ),
        Ok(_) => Finding::good(SUBJECT, format!("{url} answers")),
        Err(error) => Finding::bad(
            SUBJECT,
            format!("{url} gives no answer: {}", words(&error.without_url())),
            "start the receiver, or check webhooks.url; until it answers, events wait and are given \
             up after webhooks.give_up_after",
        ),
    })
}

/// Whether events go unencrypted over a network.
fn is_plain(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else {
        return false;
    };
    let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "http" && !local
}

fn words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
