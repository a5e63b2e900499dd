//! Logs to standard error, and traces to an OpenTelemetry collector when one is configured.

use std::io::IsTerminal;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use thiserror::Error;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::config::telemetry::{LogFormat, TelemetryOptions};

/// How long the last traces may take to leave.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Ends the export of traces.
#[must_use = "traces are lost unless it is shut down"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

/// Why logs and traces could not be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter of log lines is not one.
    #[error("telemetry.log: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The exporter could not be made.
    #[error("telemetry.otlp_endpoint: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// Somebody else writes this process's logs already.
    #[error("logs are set up already: {0}")]
    Taken(#[from] tracing_subscriber::util::TryInitError),
}

impl Telemetry {
    /// Sets up the process's logs and traces.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        // The exporter makes an HTTP client, with or without TLS.
        crate::tls::install();
        // Actors are how it is built, not what it does.
        let lines_shown =
            EnvFilter::builder().parse(format!("ractor=warn,rmcp=off,{}", options.log))?;
        let spans_exported = EnvFilter::builder().parse("info,ractor=off,rmcp=off")?;
        let traces = match &options.otlp_endpoint {
            Some(endpoint) => Some(exporter(endpoint, options)?),
            None => None,
        };
        // A line says itself which session it is about. Its turn, step and call are told only in
        // detailed logs: a turn has seven spans, and writing them down costs more than to log it.
        let context_shown = lines_shown
            .max_level_hint()
            .is_none_or(|level| level >= LevelFilter::DEBUG);
        let context = filter_fn(move |metadata| context_shown || metadata.is_event())
            .with_max_level_hint(LevelFilter::TRACE);
        let lines = lines(options.log_format).with_filter(lines_shown.and(context));
        // What is logged and what is traced are two questions. A layer that is not there must not
        // stand here as none: for that, spans that nobody wants would be made all the same.
        let mut layers = vec![lines.boxed()];
        if let Some(provider) = &traces {
            let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("steadfast"));
            layers.push(spans.with_filter(spans_exported).boxed());
        }
        tracing_subscriber::registry().with(layers).try_init()?;
        Ok(Self { traces })
    }

    /// Sends what is left of the traces.
    pub async fn shutdown(self) {
        let Some(traces) = self.traces else { return };
        // The exporter has a blocking client of its own.
        let ended =
            tokio::task::spawn_blocking(move || traces.shutdown_with_timeout(FLUSH_PATIENCE));
        match ended.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last traces were not exported"),
            Err(error) => tracing::warn!(%error, "the export of traces did not end"),
        }
    }
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a> + Send + Sync,
{
    let terminal = std::io::stderr().is_terminal();
    let human = match format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    // Names for exported spans say nothing that a line does not say.
    let fields = format::debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?}"),
        name if name.starts_with("otel.") => Ok(()),
        name => write!(writer, "{name}={value:?}"),
    })
    .delimited(" ");
    let layer = fmt::layer().with_writer(std::io::stderr);
    if human {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        layer
            .with_ansi(colours)
            .with_target(false)
            .compact()
            .fmt_fields(fields)
            .boxed()
    } else {
        layer.json().flatten_event(true).boxed()
    }
}

fn exporter(
    endpoint: &str,
    options: &TelemetryOptions,
) -> Result<SdkTracerProvider, ExporterBuildError> {
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let spans = SpanExporter::builder()
        .with_http()
        .with_endpoint(url)
        .build()?;
    let resource = Resource::builder()
        .with_service_name(options.service_name.clone())
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sample_ratio)));
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(spans)
        .with_resource(resource)
        .with_sampler(sampler)
        .build())
}
