//! Ways to a server, checked beforehand.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::command::options::Prepared;
use crate::mcp::options::{McpServerError, McpTransport};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A way to a server.
pub(super) enum Way {
    Process(Prepared),
    Http {
        client: reqwest::Client,
        config: StreamableHttpClientTransportConfig,
    },
}

impl Way {
    pub(super) fn new(transport: McpTransport) -> Result<Self, McpServerError> {
        match transport {
            McpTransport::Command(options) => Ok(Self::Process(options.prepare()?)),
            McpTransport::Http { url, headers } => {
                let valid = reqwest::Url::parse(&url)
                    .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
                if !valid {
                    return Err(McpServerError::Url { url });
                }
                let header = |(name, value): (&String, &String)| {
                    let wrong = || McpServerError::Header { name: name.clone() };
                    let key: HeaderName = name.parse().map_err(|_| wrong())?;
                    let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
                    value.set_sensitive(true);
                    Ok((key, value))
                };
                let headers: Result<HashMap<_, _>, McpServerError> =
                    headers.iter().map(header).collect();
                // Like HTTP tools: a request is sent once, over a connection of its own.
                let client = reqwest::Client::builder()
                    .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")))
                    .redirect(reqwest::redirect::Policy::none())
                    .retry(reqwest::retry::never())
                    .pool_max_idle_per_host(0)
                    .connect_timeout(CONNECT_TIMEOUT)
                    .build()
                    .map_err(|error| McpServerError::Client {
                        reason: error.to_string(),
                    })?;
                let config =
                    StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers?);
                Ok(Self::Http { client, config })
            }
        }
    }
}

/// A connection over streamable HTTP.
pub(super) fn http(
    client: &reqwest::Client,
    config: &StreamableHttpClientTransportConfig,
) -> StreamableHttpClientTransport<reqwest::Client> {
    StreamableHttpClientTransport::with_client(client.clone(), config.clone())
}
