//! The client that the protocol's conformance suite drives: the product's own code, without a model.
//!
//! `mcp-conformance-client URL`, with the scenario in `MCP_CONFORMANCE_SCENARIO`. It lists the
//! server's tools, calls each with what its schema asks for, and agrees to whatever is asked.

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast_core::call::Question;
use steadfast_core::id::{CallId, Epoch, Seq, SessionId, SessionKey, TenantId, Timestamp, TurnId};
use steadfast_core::input::CallOutcome;
use steadfast_tools::catalog::{Stock, Tool, ToolSource};
use steadfast_tools::mcp::{McpOptions, McpServer, McpTransport};
use steadfast_tools::worker::{Answered, Job, ToolIo};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a server may take until its tools are listed, and a call until it has an outcome.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    // The one provider of TLS, as in the product; installed already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let url = env::args()
        .nth(1)
        .ok_or("usage: mcp-conformance-client URL")?;
    let transport = McpTransport::Http {
        url,
        headers: std::collections::BTreeMap::new(),
    };
    let server =
        McpServer::new(McpOptions::new("suite", transport)).map_err(|error| error.to_string())?;
    let server = Arc::new(server);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (server, stop) = (Arc::clone(&server), stop.clone());
        async move { server.run(stop).await }
    });
    timeout(PATIENCE, server.reached())
        .await
        .map_err(|_| format!("never reached: {:?}", server.stock().state))?;
    let stock = server.stock();
    for refused in &stock.refused {
        println!("refused {}: {}", refused.tool, refused.reason);
    }
    for (number, (tool, input)) in (0..).zip(calls(&stock)?) {
        println!("{} {}", tool.spec.name, tool.spec.input_schema);
        let outcome = call(tool, number, input).await?;
        println!("{}: {outcome:?}", tool.spec.name);
    }
    stop.cancel();
    running.await.map_err(|error| error.to_string())
}

/// The calls that the scenario names, else one of each tool with the least that it asks for.
fn calls(stock: &Stock) -> Result<Vec<(&Arc<Tool>, Value)>, String> {
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Value = serde_json::from_str(&context).map_err(|error| error.to_string())?;
    let Some(named) = context["toolCalls"].as_array() else {
        let one_each = stock.tools();
        return Ok(one_each
            .map(|tool| (tool, required(&tool.spec.input_schema)))
            .collect());
    };
    let find = |call: &Value| {
        let is_it = |tool: &&Arc<Tool>| {
            let origin = tool.spec.mcp.as_ref();
            origin.is_some_and(|origin| call["name"] == origin.tool)
        };
        let tool = stock.tools().find(is_it);
        let tool = tool.ok_or_else(|| format!("there is no tool {}", call["name"]))?;
        Ok((tool, call["arguments"].clone()))
    };
    named.iter().map(find).collect()
}

/// One call to its end, whatever is asked meanwhile.
async fn call(tool: &Arc<Tool>, number: u16, input: Value) -> Result<CallOutcome, String> {
    const QUESTIONS_MAX: u32 = 5;
    let worker = tool.worker.clone().ok_or("nothing runs it")?;
    let mut answered = None;
    for attempt in 1..=QUESTIONS_MAX {
        let (progress, _unseen) = mpsc::channel(16);
        let io = ToolIo::new(CancellationToken::new(), progress);
        let job = job(tool, number, attempt, (input.clone(), answered.take()))?;
        match timeout(PATIENCE, worker.run(job, io)).await {
            Ok(CallOutcome::Asks(question)) => answered = Some(agreed(question, attempt)),
            Ok(outcome) => return Ok(outcome),
            Err(_) => return Err(format!("{} has no outcome", tool.spec.name)),
        }
    }
    Err(format!("{} asks again and again", tool.spec.name))
}

fn agreed(question: Question, attempt: u32) -> Answered {
    let schema = |request: &Value| request["params"]["requestedSchema"].clone();
    let requests = question.requests.as_object().cloned().unwrap_or_default();
    let answers: Map<String, Value> = requests
        .iter()
        .map(|(id, request)| {
            let content = required(&schema(request));
            (
                id.clone(),
                json!({ "action": "accept", "content": content }),
            )
        })
        .collect();
    Answered {
        attempt,
        question,
        answer: Value::Object(answers).into(),
    }
}

fn job(
    tool: &Tool,
    number: u16,
    attempt: u32,
    (input, answered): (Value, Option<Answered>),
) -> Result<Job, String> {
    let wrong = |error: steadfast_core::id::InvalidId| error.to_string();
    Ok(Job {
        session: SessionKey {
            tenant: TenantId::new("default").map_err(wrong)?,
            session: SessionId::new("conformance").map_err(wrong)?,
        },
        turn: TurnId(Seq(1)),
        call: CallId {
            epoch: Epoch(1),
            reply: Seq(2),
            index: number,
        },
        attempt,
        epoch: Epoch(1),
        tool: tool.spec.name.clone(),
        input,
        deadline: Timestamp(u64::MAX),
        remaining_ms: 60_000,
        answered,
        approval_reason: None,
        metadata: Value::Null,
        traceparent: None,
    })
}

/// The least that a schema of an object asks for.
fn required(schema: &Value) -> Value {
    let names = schema["required"].as_array().cloned().unwrap_or_default();
    let names = names.iter().filter_map(Value::as_str);
    let value = |name: &str| example(&schema["properties"][name]);
    Value::Object(names.map(|name| (name.to_owned(), value(name))).collect())
}

fn example(schema: &Value) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.first().cloned().unwrap_or_default();
    }
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => required(schema),
        _ => json!("example"),
    }
}
