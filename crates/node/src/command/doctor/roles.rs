//! Says what the roles of the node come to, and what it leaves to other nodes.

use super::Finding;
use crate::config::Config;
use crate::config::node::Role;
use crate::config::tool::ToolOptions;

/// What the roles mean for this configuration.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let node = &config.node;
    let mut findings = vec![if node.has(Role::Api) {
        Finding::good("role api", "serves the HTTP API")
    } else {
        let found = "not here: only /healthz, /readyz and /metrics are served";
        Finding::good("role api", found)
    }];
    findings.push(if node.has(Role::Driver) {
        let found = "takes sessions from the queue, from timers and from nodes that are gone";
        Finding::good("role driver", found)
    } else if !node.has(Role::Api) {
        Finding::good("role driver", "not here: this node owns no session")
    } else if node.handover_after.get().is_zero() {
        let found = "not here: all messages go to the queue, so other nodes must have it";
        Finding::good("role driver", found)
    } else {
        let after = node.handover_after;
        let found = format!(
            "not here: turns begin here and are handed over after {after}, so other nodes must have it"
        );
        Finding::good("role driver", found)
    });
    findings.extend(worker(config));
    findings
}

fn worker(config: &Config) -> Vec<Finding> {
    const SUBJECT: &str = "role worker";
    let named = |is: fn(&ToolOptions) -> bool| {
        let agents = config.agents.values();
        let tools = agents.flat_map(|agent| agent.tools.iter());
        let mut names: Vec<&str> = tools
            .filter(|tool| tool.remote && is(tool))
            .map(|tool| tool.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    let ours = named(|tool| tool.http.is_some() || tool.command.is_some());
    let elsewhere = named(|tool| tool.http.is_none() && tool.command.is_none());
    let mut findings = Vec::new();
    findings.push(match (config.node.has(Role::Worker), ours.is_empty()) {
        (true, false) => Finding::good(SUBJECT, format!("runs calls of {ours}")),
        (true, true) => Finding::good(SUBJECT, "no remote tool of this configuration to run"),
        (false, true) => Finding::good(SUBJECT, "not here"),
        (false, false) => Finding::doubtful(
            SUBJECT,
            format!("not here: other nodes must run calls of {ours}"),
            "start at least one node with the role worker on this configuration",
        ),
    });
    if !elsewhere.is_empty() {
        findings.push(Finding::doubtful(
            SUBJECT,
            format!("calls of {elsewhere} wait for workers of your own until their deadline"),
            "start such a worker at the same broker; deploy/workers.md says what it does",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::agent::AgentOptions;
    use crate::config::duration::Duration;

    fn found(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::default();
        let tool = |name: &str, more: &str| -> ToolOptions {
            let text = format!("name = {name:?}\ndescription = \"\"\nremote = true\n{more}");
            toml::from_str(&text).unwrap()
        };
        let mut agent = AgentOptions::new("scripted/demo");
        agent.tools = vec![
            tool("pay", "http = { url = \"http://127.0.0.1/pay\" }"),
            tool("draw", ""),
        ];
        config.agents.insert("a".to_owned(), agent);
        change(&mut config);
        look(&config)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.subject, finding.found))
            .collect()
    }

    #[test]
    fn each_role_says_what_it_comes_to() {
        let whole = found(|_| {});
        assert_eq!(
            whole,
            [
                "role api: serves the HTTP API",
                "role driver: takes sessions from the queue, from timers and from nodes that are gone",
                "role worker: runs calls of pay",
                "role worker: calls of draw wait for workers of your own until their deadline",
            ]
        );
        let worker = found(|config| config.node.roles = vec![Role::Worker]);
        assert_eq!(
            worker[..3],
            [
                "role api: not here: only /healthz, /readyz and /metrics are served",
                "role driver: not here: this node owns no session",
                "role worker: runs calls of pay",
            ]
        );
        let api = found(|config| {
            config.node.roles = vec![Role::Api];
            config.node.handover_after = Duration::from_secs(0);
        });
        assert_eq!(
            api[1..3],
            [
                "role driver: not here: all messages go to the queue, so other nodes must have it",
                "role worker: not here: other nodes must run calls of pay",
            ]
        );
    }
}
