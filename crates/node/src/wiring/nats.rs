//! What the store on the broker is told.

use steadfast_store_nats::{Auth, Options, Tls};

use crate::config::nats::{NatsOptions, addresses};
use crate::config::secret::{Secret, SecretError};
use crate::config::store::StoreOptions;

/// The options of a store on the broker; reads the secrets.
pub(crate) fn options(store: &StoreOptions) -> Result<Options, SecretError> {
    let nats = &store.nats;
    let list = |text: &str| addresses(text).map(str::to_owned).collect();
    Ok(Options {
        servers: list(&nats.url),
        auth: auth(nats)?,
        tls: Tls {
            required: nats.tls,
            authorities: nats.tls_authorities_file.clone(),
            certificate: nats
                .tls_certificate_file
                .clone()
                .zip(nats.tls_key_file.clone()),
        },
        prefix: nats.prefix.clone(),
        replicas: nats.replicas,
        partitions: nats.partitions,
        monitor_urls: list(&nats.monitor_url),
        require_fsync: store.require_fsync,
        require_replicas: store.require_replicas,
        ..Options::default()
    })
}

fn auth(nats: &NatsOptions) -> Result<Auth, SecretError> {
    let read = |secret: &Secret| secret.read().map(|text| text.expose().to_owned());
    if let (Some(user), Some(password)) = (&nats.user, &nats.password) {
        return Ok(Auth::Password {
            user: user.clone(),
            password: read(password)?,
        });
    }
    if let Some(token) = &nats.token {
        return Ok(Auth::Token(read(token)?));
    }
    if let Some(seed) = &nats.nkey {
        return Ok(Auth::Nkey(read(seed)?));
    }
    if let Some(file) = &nats.credentials_file {
        return Ok(Auth::Credentials(file.clone()));
    }
    Ok(Auth::None)
}
