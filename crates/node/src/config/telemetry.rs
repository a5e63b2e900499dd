//! `[telemetry]`: logs and traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Logs and traces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryOptions {
    /// Which log lines are written: a level, or levels by module such as
    /// `info,steadfast_runtime=debug`.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Base URL of an OpenTelemetry collector (OTLP over HTTP, without TLS), for example
    /// `http://127.0.0.1:4318`. Without it no traces are exported.
    pub otlp_endpoint: Option<String>,
    /// Name of the service in traces.
    pub service_name: String,
    /// Share of traces that is exported.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample_ratio: f64,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// `human` on a terminal, `json` otherwise.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            log_format: LogFormat::Auto,
            otlp_endpoint: None,
            service_name: "steadfast".to_owned(),
            sample_ratio: 1.0,
        }
    }
}
