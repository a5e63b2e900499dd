//! `steadfast doctor`: finds out before the start what would go wrong after it.

mod agents;
mod mcp;
mod nats;
mod remedy;
mod roles;
mod store;
mod webhook;

use clap::Args;
use serde::Serialize;

use crate::command::serve::ConfigFile;
use crate::config::Config;
use crate::config::store::StoreKind;
use crate::terminal::{BAD, DIM, GOOD, WARN, paint};

/// Checks a configuration and what it names; changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    config: ConfigFile,
    /// Asks each model for one word, which costs a few tokens.
    #[arg(long)]
    probe: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What.
    pub(crate) subject: String,
    /// How it is.
    pub(crate) health: Health,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    Good,
    /// It works, and may not be what one wants.
    Doubtful,
    /// It does not work.
    Bad,
}

impl Finding {
    /// Something in order.
    pub(crate) fn good(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            health: Health::Good,
            found: found.into(),
            remedy: None,
        }
    }

    /// Something that works, and may not be what one wants.
    pub(crate) fn doubtful(
        subject: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            health: Health::Doubtful,
            remedy: Some(remedy.into()),
            ..Self::good(subject, found)
        }
    }

    /// Something that does not work.
    pub(crate) fn bad(
        subject: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            health: Health::Bad,
            ..Self::doubtful(subject, found, remedy)
        }
    }
}

/// Looks at everything; whether nothing is bad.
pub(crate) async fn run(args: Doctor) -> anyhow::Result<bool> {
    let config = args.config.load()?;
    let mut findings = vec![Finding::good(
        "configuration",
        "every option is known and fits",
    )];
    findings.push(listen(&config).await);
    findings.extend(match config.store.kind {
        StoreKind::Redb => store::look(&config.store).await,
        StoreKind::Nats => nats::look(&config.store).await,
    });
    findings.extend(roles::look(&config));
    findings.extend(agents::look(&config));
    findings.extend(mcp::look(&config).await);
    findings.extend(webhook::look(&config).await);
    if args.probe {
        findings.extend(agents::probe(&config).await);
    }
    let well = findings.iter().all(|finding| finding.health != Health::Bad);
    if args.json {
        serde_json::to_writer_pretty(std::io::stdout().lock(), &findings)?;
        crate::terminal::say!("");
    } else {
        findings.iter().for_each(show);
    }
    Ok(well)
}

fn show(finding: &Finding) {
    let sign = match finding.health {
        Health::Good => paint(GOOD, "✓").to_string(),
        Health::Doubtful => paint(WARN, "!").to_string(),
        Health::Bad => paint(BAD, "✗").to_string(),
    };
    crate::terminal::say!("{sign} {}: {}", finding.subject, finding.found);
    if let Some(remedy) = &finding.remedy {
        crate::terminal::say!("  {}", paint(DIM, remedy));
    }
}

async fn listen(config: &Config) -> Finding {
    let address = &config.node.listen;
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => Finding::good("address", format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Finding::bad(
            "address",
            format!("{address} is taken"),
            "stop who listens there (a node that runs?), or change node.listen",
        ),
        Err(error) => Finding::bad(
            "address",
            format!("{address} cannot be listened on: {error}"),
            "choose an address of this machine in node.listen",
        ),
    }
}
