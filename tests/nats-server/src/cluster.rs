//! Three brokers that know each other.

use crate::ports;
use crate::server::{NatsServer, Settings};

/// A running cluster; ended when dropped.
pub struct NatsCluster {
    /// Its servers.
    pub servers: [NatsServer; 3],
}

impl NatsCluster {
    /// Starts three servers on free ports.
    pub fn start(sync_always: bool) -> Self {
        Self::start_as(sync_always, false)
    }

    /// The same whose servers do not tell clients of each other: a client knows only the addresses
    /// that it was given, such as those of a proxy.
    pub fn start_hidden(sync_always: bool) -> Self {
        Self::start_as(sync_always, true)
    }

    fn start_as(sync_always: bool, hidden: bool) -> Self {
        for _ in 0..5 {
            if let Ok(cluster) = Self::try_start(sync_always, hidden) {
                return cluster;
            }
        }
        panic!("no cluster of brokers on free ports");
    }

    fn try_start(sync_always: bool, hidden: bool) -> Result<Self, String> {
        let ports: [u16; 9] = ports::free();
        let routes: String = ports[6..]
            .iter()
            .map(|port| format!(" nats-route://127.0.0.1:{port}\n"))
            .collect();
        let start = |position: usize| {
            let settings = Settings {
                name: format!("n{}", position + 1),
                sync_always,
                ..Settings::default()
            };
            let cluster = format!(
                "cluster {{\n name: tests\n listen: 127.0.0.1:{}\n no_advertise: {}\n \
                 routes: [\n{routes} ]\n}}",
                ports[6 + position],
                hidden,
            );
            NatsServer::start_on(settings, [ports[position], ports[3 + position]], cluster)
        };
        Ok(Self {
            servers: [start(0)?, start(1)?, start(2)?],
        })
    }

    /// Addresses for clients.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(NatsServer::url).collect()
    }

    /// Addresses of the monitoring pages.
    pub fn monitor_urls(&self) -> Vec<String> {
        self.servers.iter().map(NatsServer::monitor_url).collect()
    }

    /// The server of a name.
    pub fn server(&mut self, name: &str) -> &mut NatsServer {
        let found = self.servers.iter_mut().find(|server| server.name() == name);
        found.unwrap_or_else(|| panic!("no server {name}"))
    }
}
