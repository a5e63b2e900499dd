//! The HTTP client.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::crypto::CryptoProvider;
use steadfast_core::input::ModelFailure;

use crate::failure;

/// A client that follows no redirects, since a key must not travel, and never retries.
pub(super) fn client(connect_timeout: Duration) -> Result<Client, reqwest::Error> {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may install one in the same moment: any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Client::builder()
        .connect_timeout(connect_timeout)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// The provider was not reached, or the connection broke before it answered.
pub(super) fn unreachable(error: reqwest::Error) -> ModelFailure {
    failure::retryable(
        what_failed(&error),
        format!("the provider cannot be reached: {}", chain(error)),
    )
}

/// What kept the provider from being reached, as far as the causes of the error tell.
fn what_failed(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        return "connect_timeout";
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(code) = of_cause(cause) {
            return code;
        }
        source = cause.source();
    }
    "unreachable"
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if cause.is::<rustls::Error>() {
        return Some("tls_failed");
    }
    // The resolver's error has no type to go by, only its words.
    if cause.to_string() == "dns error" {
        return Some("name_not_found");
    }
    let error = cause.downcast_ref::<io::Error>()?;
    match (error.kind(), error.get_ref()) {
        (io::ErrorKind::ConnectionRefused, _) => Some("connection_refused"),
        // What an I/O error was made of is not among its sources.
        (_, Some(inner)) => of_cause(inner),
        (_, None) => None,
    }
}

/// The connection broke within the answer.
pub(super) fn broken(error: reqwest::Error) -> ModelFailure {
    failure::broken_stream(format!(
        "the connection broke within the reply: {}",
        chain(error)
    ))
}

/// An error with its causes, without the address: it may hold a key.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
