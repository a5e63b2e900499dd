//! A tool of an MCP server.

use std::collections::BTreeMap;
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
use steadfast_core::call::Question;
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, ReplayRule};
use steadfast_core::limits::DETAIL_BYTES_MAX;
use tokio::time::timeout;

use crate::catalog::{CatalogError, Line, Tool, sound};
use crate::cut::cut;
use crate::definition::ToolDefinition;
use crate::mcp::connection::chain;
use crate::mcp::handler::Ask;
use crate::mcp::options::McpOptions;
use crate::mcp::parked::{Held, Sent};
use crate::mcp::server::{Connected, Shared};
use crate::mcp::{question, result};
use crate::spec::{McpOrigin, ToolKind, ToolSpec};
use crate::worker::{Answered, Executor, Job, ToolIo, ToolWorker};

/// How long a call waits for a server that is not reached.
const REACH_MAX: Duration = Duration::from_secs(20);
/// Times that a server may put a call off.
const ROUNDS_MAX: usize = 10;
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

/// The schema without an older dialect that it names: it is read as the newest.
fn plain_schema(schema: &Map<String, Value>) -> Value {
    const NEWEST: &str = "https://json-schema.org/draft/2020-12/schema";
    let mut schema = schema.clone();
    if schema
        .get("$schema")
        .is_some_and(|dialect| dialect != NEWEST)
    {
        schema.remove("$schema");
    }
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

    async fn run(&self, mut job: Job, io: ToolIo) -> CallOutcome {
        let patience = REACH_MAX.min(Duration::from_millis(job.remaining_ms));
        let connected = tokio::select! { biased;
            () = io.cancelled.cancelled() => return nothing_done("it was called off before it was sent"),
            connected = timeout(patience, self.shared.connected()) => match connected {
                Ok(Some(connected)) => connected,
                Ok(None) | Err(_) => return nothing_done(&self.shared.why_not()),
            },
        };
        match job.answered.take() {
            None => self.begin(&connected, &job, None, io).await,
            Some(answered) => self.go_on(&connected, &job, answered, io).await,
        }
    }
}

impl McpTool {
    /// Sends the request; `more` is what the server is given back with the answers to its question.
    async fn begin(
        &self,
        connected: &Connected,
        job: &Job,
        more: Option<More>,
        io: ToolIo,
    ) -> CallOutcome {
        let mut more = more;
        for _ in 0..ROUNDS_MAX {
            let sent = match self.send(connected, job, more.take(), &io).await {
                Ok(sent) => sent,
                // It was not even taken for sending.
                Err(error) => return nothing_done(&error.to_string()),
            };
            match self.await_answer(sent, job, &io, None).await {
                Next::Ended(outcome) => return outcome,
                // It only wants to be asked again.
                Next::Again(state) => {
                    more = Some(More {
                        answers: BTreeMap::new(),
                        state: Some(state),
                    });
                }
            }
        }
        let words = "the MCP server put the call off again and again";
        CallOutcome::Done(ToolOutput::error(words).into())
    }

    async fn send(
        &self,
        connected: &Connected,
        job: &Job,
        more: Option<More>,
        io: &ToolIo,
    ) -> Result<Sent, ServiceError> {
        let mut params = CallToolRequestParams::new(self.tool.clone());
        // The schema of its input is of an object, and was checked.
        if let Value::Object(arguments) = job.input.clone() {
            params = params.with_arguments(arguments);
        }
        if let Some(More { answers, state }) = more {
            if !answers.is_empty() {
                params = params.with_input_responses(answers);
            }
            params.request_state = state;
        }
        let options = PeerRequestOptions::no_options().with_meta(meta(job));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let request = connected
            .peer
            .send_cancellable_request(request, options)
            .await?;
        let (id, token) = (request.id.clone(), request.progress_token.clone());
        let (entered, asks) = connected.calls.enter(id, token, io.progress.clone());
        Ok(Sent {
            request,
            entered,
            asks,
        })
    }

    /// Goes on with a call whose question was answered.
    async fn go_on(
        &self,
        connected: &Connected,
        job: &Job,
        answered: Answered,
        io: ToolIo,
    ) -> CallOutcome {
        let Answered {
            question,
            answer,
            attempt,
        } = answered;
        let answers = match question::answers(&question, &answer) {
            Ok(answers) => answers,
            Err(problem) => {
                return CallOutcome::Asks(Question {
                    problem: Some(problem),
                    ..question
                });
            }
        };
        let key = job.key();
        if let Some(Held { sent, answer }) = self.shared.parked.take(&key) {
            sent.entered.report_to(io.progress.clone());
            if let Ok(result) = serde_json::from_value(question::only(&answers)) {
                // It may have given up asking; then its result is on the way.
                let _no_longer_asked = answer.send(result);
            }
            return match self.await_answer(sent, job, &io, None).await {
                Next::Ended(outcome) => outcome,
                Next::Again(_) => CallOutcome::Unknown {
                    detail: "the MCP server mixed two generations of the protocol".to_owned(),
                },
            };
        }
        if !question::is_held(&question) {
            let state = question.state;
            return self
                .begin(connected, job, Some(More { answers, state }), io)
                .await;
        }
        if job.attempt == attempt + 1 {
            let detail = "the MCP server that asked, or the connection to it, is gone";
            return CallOutcome::Unknown {
                detail: detail.to_owned(),
            };
        }
        // Its rule lets it run again: the server asks again, and is told what was answered.
        let again = Some((question, question::only(&answers)));
        match self.send(connected, job, None, &io).await {
            Err(error) => nothing_done(&error.to_string()),
            Ok(sent) => match self.await_answer(sent, job, &io, again).await {
                Next::Ended(outcome) => outcome,
                Next::Again(_) => nothing_done("the MCP server put the call off"),
            },
        }
    }

    /// Waits for an answer, a question, or a cancel. `known` is a question with its answer.
    async fn await_answer(
        &self,
        mut sent: Sent,
        job: &Job,
        io: &ToolIo,
        mut known: Option<(Question, Value)>,
    ) -> Next {
        loop {
            tokio::select! { biased;
                answer = &mut sent.request.rx => {
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return next(answer);
                }
                Some(Ask { params, answer }) = sent.asks.recv() => {
                    let question = question::held(&params);
                    if let Some((asked, said)) = known.take()
                        && asked.requests == question.requests
                        && let Ok(result) = serde_json::from_value(said)
                    {
                        let _no_longer_asked = answer.send(result);
                        continue;
                    }
                    if let Some(given_up) = self.shared.parked.put(job.key(), Held { sent, answer }) {
                        call_off(given_up.sent).await;
                    }
                    return Next::Ended(CallOutcome::Asks(question));
                }
                () = io.cancelled.cancelled() => {
                    return Next::Ended(CallOutcome::Unknown { detail: call_off(sent).await });
                }
            }
        }
    }
}

/// What a server is given back when its call goes on.
struct More {
    answers: BTreeMap<String, Value>,
    state: Option<String>,
}

/// How a request ended.
enum Next {
    Ended(CallOutcome),
    /// It is to be sent again, with this.
    Again(String),
}

fn next(answer: Result<ServerResult, ServiceError>) -> Next {
    let Ok(ServerResult::InputRequiredResult(result)) = &answer else {
        return Next::Ended(outcome(answer));
    };
    let asks_nothing = result
        .input_requests
        .as_ref()
        .is_none_or(BTreeMap::is_empty);
    match (&result.request_state, asks_nothing) {
        (Some(state), true) => Next::Again(state.clone()),
        _ => Next::Ended(match question::ended(result) {
            Ok(question) => CallOutcome::Asks(question),
            Err(words) => CallOutcome::Done(ToolOutput::error(words).into()),
        }),
    }
}

/// Tells the server that the outcome is no longer wanted.
async fn call_off(sent: Sent) -> String {
    let reason = "the outcome is no longer wanted".to_owned();
    match sent.request.cancel(Some(reason)).await {
        Ok(()) => "the server was told that its outcome is no longer wanted".to_owned(),
        Err(error) => format!("it was called off, and the server could not be told: {error}"),
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
        Err(error) if never_sent(&error) => nothing_done(&chain(&error)),
        Err(error) => CallOutcome::Unknown {
            detail: cut(
                &format!("no answer of the MCP server: {}", chain(&error)),
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
