//! `steadfast dev`: a node on this machine with a demo agent, without any configuration.

use std::io::Write;

use clap::Args;

use crate::config::{Config, Sources};
use crate::demo;
use crate::node::Node;
use crate::telemetry::Telemetry;
use crate::terminal::{ACCENT, DIM, STRONG, paint};

/// Runs a node on this machine with a demo agent; needs no configuration.
#[derive(Debug, Default, Args)]
pub(crate) struct Dev {
    /// Address and port; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The demo agent's model, as `anthropic/MODEL`, `openai/MODEL` or `scripted/demo`. By default
    /// that of a provider whose key is in the environment, else the scripted one.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// Replaces an option, for example `--set store.path=/tmp/steadfast`.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

/// A provider that is used when its key is in the environment.
struct Known {
    variable: &'static str,
    /// Only a default, which `--model` replaces: providers retire models.
    model: &'static str,
}

const KNOWN: [Known; 2] = [
    Known {
        variable: "ANTHROPIC_API_KEY",
        model: "anthropic/claude-sonnet-5.5",
    },
    Known {
        variable: "OPENAI_API_KEY",
        model: "openai/gpt-5.2",
    },
];

const CONFIG: &str = include_str!("dev/dev.toml");

/// Runs until told to stop.
pub(crate) async fn run(args: Dev) -> anyhow::Result<()> {
    let (model, why) = model(args.model);
    let mut set = vec![format!("agents.{}.model={model}", demo::AGENT)];
    set.extend(args.listen.map(|address| format!("node.listen={address}")));
    set.extend(args.set);
    let config = Config::load(&Sources::of_text(
        "the built-in configuration",
        CONFIG,
        &set,
    ))?;
    let telemetry = Telemetry::start(&config.telemetry)?;
    let result = serve(config, &model, &why).await;
    telemetry.shutdown().await;
    result
}

/// The model, and why it is that one.
fn model(wanted: Option<String>) -> (String, String) {
    if let Some(model) = wanted {
        return (model, "as asked".to_owned());
    }
    let set = |known: &&Known| std::env::var_os(known.variable).is_some_and(|key| !key.is_empty());
    match KNOWN.iter().find(set) {
        Some(known) => {
            let why = format!(
                "{} is set; --model scripted/demo for the scripted one",
                known.variable
            );
            (known.model.to_owned(), why)
        }
        None => {
            let names = KNOWN.map(|known| known.variable).join(" or ");
            let why = format!("set {names} for a real one");
            ("scripted/demo".to_owned(), why)
        }
    }
}

async fn serve(mut config: Config, model: &str, why: &str) -> anyhow::Result<()> {
    if let Some(agent) = config.agents.get_mut(demo::AGENT) {
        agent.instructions = demo::INSTRUCTIONS.to_owned();
    }
    let store = config.store.path.display().to_string();
    let node = Node::from_config(config)
        .tools(demo::AGENT, demo::tools())
        .start()
        .await?;
    welcome(&node.url(), &store, model, why);
    node.run_until_signal().await
}

fn welcome(url: &str, store: &str, model: &str, why: &str) {
    let binary = if std::env::var_os("CARGO").is_some() {
        "cargo run --".to_owned()
    } else {
        let started_as = std::env::args().next();
        started_as.unwrap_or_else(|| "steadfast".to_owned())
    };
    let at = match url {
        crate::client::DEFAULT_URL => String::new(),
        url => format!(" --url {url}"),
    };
    let wait = "?wait=30s";
    let body = r#"{"agent": "demo", "content": "get_weather in Paris, please"}"#;
    // A node serves on, whoever reads this.
    let _ = writeln!(
        anstream::stdout(),
        "
  {title} is running at {address}
  {note}

  model    {model}  {why}
  data     {store}

  Talk to it          {chat}
  Send one message    {curl}
                      {curl_body}

  Then ask for {book}, and kill this process (kill -9) while it works:
  start it again, and the turn goes on.
",
        title = paint(STRONG, "Steadfast"),
        address = paint(ACCENT, url),
        note = paint(DIM, "A single node for development. Ctrl-C stops it."),
        why = paint(DIM, format!("({why})")),
        chat = paint(ACCENT, format!("{binary} chat{at}")),
        curl = paint(
            ACCENT,
            format!("curl '{url}/v1/sessions/s1/messages{wait}' \\")
        ),
        curl_body = paint(ACCENT, format!("--json '{body}'")),
        book = paint(ACCENT, "write_report"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_models_are_told_to_whoever_reads_the_front_page() {
        let page = include_str!("../../../../README.md");
        for known in KNOWN {
            assert!(page.contains(&format!("`{}`", known.variable)));
            assert!(
                page.contains(&format!("`{}`", known.model)),
                "{}",
                known.model
            );
        }
    }
}
