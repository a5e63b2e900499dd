//! A tool of an MCP server.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult,
    Tool as ListedTool, ToolAnnotations,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, ReplayRule};
use steadfast_core::limits::DETAIL_BYTES_MAX;
use tokio::time::timeout;

use crate::catalog::{CatalogError, Line, Tool, sound};
use crate::cut::cut;
use crate::definition::ToolDefinition;
use crate::mcp::options::McpOptions;
use crate::mcp::result;
use crate::mcp::server::Shared;
use crate::spec::{McpOrigin, ToolKind, ToolSpec};
use crate::worker::{Executor, Job, ToolIo, ToolWorker};

/// How long a call waits for a server that is not reached.
const REACH_MAX: Duration = Duration::from_secs(20);
/// Length of a description, at most: it goes to the model with every request.
const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;
/// Length of a tool's schemas, at most.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// A tool as a server lists it, as the catalog has it; or why it cannot be offered.
pub(super) fn made(
    shared: &Arc<Shared>,
    name: String,
    listed: ListedTool,
    line: Line,
) -> Result<Tool, String> {
    let options = &shared.options;
    let description = match (&listed.description, &listed.title) {
        (Some(text), _) => text.to_string(),
        (None, title) => title.clone().unwrap_or_default(),
    };
    let mut spec = ToolSpec::new(
        name,
        cut(&description, DESCRIPTION_BYTES_MAX),
        object_schema(&listed.input_schema),
    );
    spec.output_schema = listed.output_schema.as_deref().map(plain_schema);
    let schemas = [Some(&spec.input_schema), spec.output_schema.as_ref()];
    let bytes: usize = schemas
        .into_iter()
        .flatten()
        .map(|schema| schema.to_string().len())
        .sum();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!(
            "its schemas have {bytes} bytes; {SCHEMA_BYTES_MAX} are taken"
        ));
    }
    spec.kind = ToolKind::Dynamic;
    spec.mcp = Some(McpOrigin {
        server: options.name.clone(),
        tool: listed.name.to_string(),
    });
    spec.replay = rule(options, listed.annotations.as_ref());
    spec.approval = options.approval;
    spec.deadline_ms = options.deadline_ms;
    spec.concurrency_max = options.concurrency_max;
    spec.attempts_max = ToolSpec::attempts_max_of(spec.replay);
    let worker = Arc::new(McpTool {
        shared: Arc::clone(shared),
        tool: listed.name.to_string(),
    });
    let defined = |spec: ToolSpec| {
        let mut definition = ToolDefinition::with_worker(spec, worker.clone());
        definition.line = Some(line);
        sound(definition)
    };
    match defined(spec.clone()) {
        Ok(tool) => Ok(tool),
        // Patterns that take more than linear time are left to the server to check.
        Err(CatalogError::InputSchema { .. } | CatalogError::OutputSchema { .. }) => {
            without_patterns(&mut spec.input_schema);
            spec.output_schema.as_mut().map(without_patterns);
            defined(spec).map_err(|error| in_words(&error))
        }
        Err(error) => Err(in_words(&error)),
    }
}

fn in_words(error: &CatalogError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The rule of a tool: the server's, or a more lenient one by the tool's own word, if that counts.
fn rule(options: &McpOptions, hints: Option<&ToolAnnotations>) -> ReplayRule {
    let Some(hints) = hints.filter(|_| options.trusted) else {
        return options.replay;
    };
    let by_hints = if hints.read_only_hint == Some(true) {
        ReplayRule::Safe
    } else if hints.idempotent_hint == Some(true) {
        ReplayRule::Keyed
    } else {
        ReplayRule::Never
    };
    by_hints.min(options.replay)
}

/// The schema without the dialect that it names: it is read as the newest.
fn plain_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.remove("$schema");
    Value::Object(schema)
}

fn object_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = plain_schema(schema);
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

fn without_patterns(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.get("pattern").is_some_and(Value::is_string) {
                keys.remove("pattern");
            }
            keys.values_mut().for_each(without_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(without_patterns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct McpTool {
    shared: Arc<Shared>,
    /// Its name at the server.
    tool: String,
}

#[async_trait]
impl ToolWorker for McpTool {
    fn executor(&self) -> Executor {
        Executor::Mcp
    }

    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome {
        let patience = REACH_MAX.min(Duration::from_millis(job.remaining_ms));
        let connected = tokio::select! { biased;
            () = io.cancelled.cancelled() => return nothing_done("it was called off before it was sent"),
            connected = timeout(patience, self.shared.connected()) => match connected {
                Ok(Some(connected)) => connected,
                Ok(None) | Err(_) => return nothing_done(&self.shared.why_not()),
            },
        };
        let options = PeerRequestOptions::no_options().with_meta(meta(&job));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.params(job.input)));
        let mut sent = match connected
            .peer
            .send_cancellable_request(request, options)
            .await
        {
            Ok(sent) => sent,
            // It was not even taken for sending.
            Err(error) => return nothing_done(&error.to_string()),
        };
        let _reported = connected
            .calls
            .enter(sent.progress_token.clone(), io.progress);
        tokio::select! { biased;
            answer = &mut sent.rx => match answer {
                Ok(answer) => outcome(answer),
                Err(_) => outcome(Err(ServiceError::TransportClosed)),
            },
            () = io.cancelled.cancelled() => {
                let reason = "the outcome is no longer wanted".to_owned();
                let told = match sent.cancel(Some(reason)).await {
                    Ok(()) => "the server was told that its outcome is no longer wanted".to_owned(),
                    Err(error) => format!("it was called off, and the server could not be told: {error}"),
                };
                CallOutcome::Unknown { detail: told }
            }
        }
    }
}

impl McpTool {
    fn params(&self, input: Value) -> CallToolRequestParams {
        let params = CallToolRequestParams::new(self.tool.clone());
        match input {
            Value::Object(arguments) => params.with_arguments(arguments),
            // The schema of its input is of an object, and was checked.
            _ => params,
        }
    }
}

/// What a server may dedupe and trace by.
fn meta(job: &Job) -> RequestMetaObject {
    let mut meta = Map::new();
    meta.insert("steadfast/key".to_owned(), job.key().into());
    meta.insert("steadfast/attempt".to_owned(), job.attempt.into());
    if let Some(traceparent) = &job.traceparent {
        meta.insert("traceparent".to_owned(), traceparent.clone().into());
    }
    RequestMetaObject::from(meta)
}

fn nothing_done(detail: &str) -> CallOutcome {
    CallOutcome::Retry {
        detail: cut(detail, DETAIL_BYTES_MAX),
        retry_after_ms: None,
    }
}

/// What an answer means for its call.
fn outcome(answer: Result<ServerResult, ServiceError>) -> CallOutcome {
    match answer {
        Ok(ServerResult::CallToolResult(result)) => CallOutcome::Done(result::output(result)),
        Ok(_) => {
            let words = "the MCP server gave an answer of a kind that is not taken here";
            CallOutcome::Done(ToolOutput::error(words).into())
        }
        Err(ServiceError::McpError(error)) => {
            let words = format!("the MCP server refused the call: {}", error.message);
            CallOutcome::Done(ToolOutput::error(cut(&words, 4 * DETAIL_BYTES_MAX)).into())
        }
        Err(error) if never_sent(&error) => nothing_done(&with_sources(&error)),
        Err(error) => CallOutcome::Unknown {
            detail: cut(
                &format!("no answer of the MCP server: {}", with_sources(&error)),
                DETAIL_BYTES_MAX,
            ),
        },
    }
}

/// Whether no connection for the request came about.
fn never_sent(error: &ServiceError) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if inner
            .downcast_ref::<reqwest::Error>()
            .is_some_and(reqwest::Error::is_connect)
        {
            return true;
        }
        source = inner.source();
    }
    false
}

fn with_sources(error: &ServiceError) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}
