//! Three nodes, three brokers, the wires between them, and the tools outside.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use steadfast_nats_server::NatsCluster;
use steadfast_store_nats::{NatsStore, Options};
use steadfast_tests::client::Client;
use steadfast_tests::cut_proxy::{CutProxy, Wire};
use steadfast_tests::ledger::{Behaviour, Ledger};
use steadfast_tests::product::Product;
use tempfile::TempDir;

/// Partitions of the store.
const PARTITIONS: u32 = 2;

/// Tools over HTTP, with how long they work.
const HTTP_TOOLS: [(&str, &str, u64); 5] = [
    ("safe", "safe", 300),
    ("keyed", "keyed", 500),
    ("never", "never", 400),
    ("keyed_slow", "keyed", 2_500),
    ("never_slow", "never", 2_500),
];

/// Tools that are commands; their ledger is a file.
const COMMAND_TOOLS: [(&str, &str); 2] = [("safe_command", "safe"), ("never_command", "never")];

/// All of it.
pub(super) struct Cluster {
    pub(super) servers: NatsCluster,
    pub(super) nodes: Vec<Node>,
    pub(super) ledger: Ledger,
    commands: TempDir,
}

/// One node with its wires to the brokers.
pub(super) struct Node {
    pub(super) product: Product,
    wires: Vec<CutProxy>,
}

impl Node {
    /// Cuts it off from all brokers, or heals that.
    pub(super) fn set_wires(&self, wire: Wire) {
        for proxy in &self.wires {
            proxy.set(wire);
        }
    }
}

impl Cluster {
    pub(super) async fn start() -> Self {
        let servers = tokio::task::block_in_place(|| NatsCluster::start_hidden(true));
        let ledger = Ledger::start().await;
        for (tool, _, work_ms) in HTTP_TOOLS {
            let work = Duration::from_millis(work_ms);
            ledger.usually(tool, Behaviour::Delay(work, json!({ "ok": true })));
        }
        let mut cluster = Self {
            servers,
            nodes: Vec::new(),
            ledger,
            commands: TempDir::with_prefix("steadfast-commands-").unwrap(),
        };
        for number in 1..=3 {
            let node = cluster.prepare(&format!("n{number}")).await;
            cluster.nodes.push(node);
        }
        let starts = cluster.nodes.iter_mut();
        join_all(starts.map(|node| node.product.start_again())).await;
        cluster
    }

    async fn prepare(&self, name: &str) -> Node {
        let mut wires = Vec::new();
        for url in self.servers.urls() {
            let address = url.trim_start_matches("nats://").to_owned();
            wires.push(CutProxy::start(address).await);
        }
        let urls: Vec<String> = wires
            .iter()
            .map(|wire| format!("nats://{}", wire.address()))
            .collect();
        let store = format!(
            "[store]\nkind = \"nats\"\nrequire_replicas = 3\n[store.nats]\nurl = {:?}\n\
             monitor_url = {:?}\nreplicas = 3\npartitions = {PARTITIONS}\n\
             [sessions]\nidle_after = \"3s\"\n",
            urls.join(","),
            self.servers.monitor_urls().join(","),
        );
        Node {
            product: Product::prepare_named(name, &store, &self.agents()),
            wires,
        }
    }

    /// An agent on the scripted model with all tools.
    fn agents(&self) -> String {
        let mut agents = "[providers.scripted]\nkind = \"scripted\"\n\
                          [agents.clerk]\nmodel = \"scripted/demo\"\n"
            .to_owned();
        let mut add = |name: &str, replay: &str, executor: String| {
            agents.push_str(&format!(
                "[[agents.clerk.tools]]\nname = \"{name}\"\ndescription = \"Works\"\n\
                 replay = \"{replay}\"\ninput_schema = {{ type = \"object\" }}\n{executor}\n"
            ));
        };
        for (name, replay, _) in HTTP_TOOLS {
            let url = self.ledger.tool_url(name);
            add(name, replay, format!("http = {{ url = \"{url}\" }}"));
        }
        for (name, replay) in COMMAND_TOOLS {
            let script = format!(
                "echo \"$STEADFAST_KEY\" >> {}; sleep 0.3; echo '{{\"ok\":true}}'",
                self.command_ledger(name).display(),
            );
            let command = format!(
                "command = {{ program = \"sh\", args = [\"-c\", {script:?}], \
                 env_passed = [\"PATH\"] }}"
            );
            add(name, replay, command);
        }
        agents
    }

    fn command_ledger(&self, tool: &str) -> PathBuf {
        self.commands.path().join(tool)
    }

    /// Clients of all nodes.
    pub(super) fn clients(&self) -> Vec<Client> {
        self.nodes
            .iter()
            .map(|node| node.product.client())
            .collect()
    }

    /// All effects so far, in the order of each tool: its name, the call's key, and what it was about
    /// where the tool told.
    pub(super) fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for entry in self
            .ledger
            .entries()
            .into_iter()
            .filter(|entry| entry.effect)
        {
            let about = entry.request.json()["of"].as_str().map(str::to_owned);
            effects.push(Effect {
                tool: entry.tool,
                key: entry.key,
                about,
            });
        }
        for (tool, _) in COMMAND_TOOLS {
            // Without a file it never ran.
            let text = fs::read_to_string(self.command_ledger(tool)).unwrap_or_default();
            effects.extend(text.lines().map(|key| Effect {
                tool: tool.to_owned(),
                key: key.to_owned(),
                about: None,
            }));
        }
        effects
    }

    /// The store, as one who belongs to no node.
    pub(super) async fn store(&self) -> NatsStore {
        let options = Options {
            servers: self.servers.urls(),
            name: "judge".to_owned(),
            partitions: PARTITIONS,
            require_fsync: false,
            ..Options::default()
        };
        NatsStore::open(&options).await.unwrap()
    }

    /// Name of the server that leads the first partition of the log.
    pub(super) async fn leader(&self) -> Option<String> {
        let http = steadfast_tests::client::http();
        for url in self.servers.monitor_urls() {
            let pages = format!("{url}/jsz?accounts=true&streams=true");
            let Ok(page) = http.get(pages).send().await else {
                continue;
            };
            let page: serde_json::Value = page.json().await.ok()?;
            let accounts = page["account_details"].as_array()?;
            let mut streams = accounts
                .iter()
                .filter_map(|account| account["stream_detail"].as_array())
                .flatten();
            let log = streams.find(|stream| stream["name"] == "SF_LOG_0")?;
            return Some(log["cluster"]["leader"].as_str()?.to_owned());
        }
        None
    }
}

/// Something that a tool did.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    pub(super) tool: String,
    pub(super) key: String,
    /// The message that asked for it.
    pub(super) about: Option<String>,
}

impl Effect {
    /// Whether its tool may run again.
    pub(super) fn is_repeatable(&self) -> bool {
        !self.tool.starts_with("never")
    }

    /// Whether its call is in the log before it runs, whatever happens.
    pub(super) fn waits_for_its_record(&self) -> bool {
        !self.tool.starts_with("safe")
    }
}
