//! The connection to the broker.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, jetstream};
use rand::Rng;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::fault::Fault;
use crate::options::{Auth, Options};

/// How long an operation waits for a connection that is just lost before it says so: most breaks
/// are shorter than a caller's own patience.
const LINK_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait between two tries to connect again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
/// Messages of one subscription that wait for its reader.
const SUBSCRIPTION_MESSAGES_MAX: usize = 8_192;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is silent for two of these is taken for broken.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// State of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) up: bool,
    /// How often it came up: what is not stored may be lost whenever this changes.
    pub(crate) ups: u64,
}

/// The connection, shared by all ports.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) context: jetstream::Context,
    pub(crate) request_timeout: Duration,
    link: watch::Receiver<Link>,
}

impl Connection {
    pub(crate) async fn open(options: &Options) -> Result<Self, String> {
        let (sender, link) = watch::channel(Link { up: false, ups: 0 });
        let connect = connect_options(options)
            .await?
            .event_callback(move |event| {
                match event {
                    Event::Connected => sender.send_modify(|link| {
                        link.up = true;
                        link.ups += 1;
                    }),
                    Event::Disconnected | Event::Closed => {
                        sender.send_modify(|link| link.up = false);
                    }
                    Event::LameDuckMode
                    | Event::Draining
                    | Event::SlowConsumer(_)
                    | Event::ServerError(_)
                    | Event::ClientError(_) => tracing::warn!(%event, "the broker's connection"),
                }
                async {}
            });
        let client = connect
            .connect(&options.servers)
            .await
            .map_err(|error| chain(&error))?;
        let context = jetstream::ContextBuilder::new()
            .timeout(options.request_timeout)
            .build(client.clone());
        let connection = Self {
            client,
            context,
            request_timeout: options.request_timeout,
            link,
        };
        // The first connect is told like any other: later it would look like a break.
        connection
            .ready()
            .await
            .map_err(|fault| fault.to_string())?;
        Ok(connection)
    }

    /// Changes of the connection from now on.
    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        let mut link = self.link.clone();
        link.mark_unchanged();
        link
    }

    /// Waits a moment for a connection. Without it nothing is handed to the client, which would
    /// keep it and send it after the next connect, when the caller has long gone on.
    pub(crate) async fn ready(&self) -> Result<(), Fault> {
        let mut link = self.link.clone();
        let down = || Fault::Unavailable("no connection to the broker".to_owned());
        match timeout(LINK_PATIENCE, link.wait_for(|link| link.up)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(down()),
        }
    }
}

async fn connect_options(options: &Options) -> Result<ConnectOptions, String> {
    let mut connect = ConnectOptions::new()
        .name(&options.name)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
        .reconnect_delay_callback(reconnect_delay)
        .require_tls(options.tls.required);
    if let Some(authorities) = &options.tls.authorities {
        connect = connect.add_root_certificates(authorities.clone());
    }
    if let Some((certificate, key)) = &options.tls.certificate {
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    match &options.auth {
        Auth::None => Ok(connect),
        Auth::Password { user, password } => {
            Ok(connect.user_and_password(user.clone(), password.clone()))
        }
        Auth::Token(token) => Ok(connect.token(token.clone())),
        Auth::Nkey(seed) => Ok(connect.nkey(seed.clone())),
        Auth::Credentials(path) => connect
            .credentials_file(path)
            .await
            .map_err(|error| format!("{}: {error}", path.display())),
    }
}

/// From nothing to seconds, each drawn anew, so that nodes do not all come at the same time.
fn reconnect_delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(6);
    let most = Duration::from_millis(50 << doublings).min(RECONNECT_DELAY_MAX);
    rand::rng().random_range(Duration::ZERO..=most)
}

/// An error with its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
