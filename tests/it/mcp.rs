//! Tools of MCP servers: published ones of npm and PyPI, and one of our own that changes and is
//! killed. What they are needed for stands in `tests/mcp`.

mod asking;
mod changing;
mod published;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::node_project;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the packages are.
async fn packages() -> Result<PathBuf, String> {
    static INSTALLED: OnceCell<Result<PathBuf, String>> = OnceCell::const_new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp");
    let install = async move { node_project::installed(&source, "mcp").await };
    INSTALLED.get_or_init(|| install).await.clone()
}

/// The scripted model with an agent `a`, and this table of its servers.
fn agent(servers: &str) -> String {
    format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.a]\nmodel = \"scripted/demo\"\n{servers}"
    )
}

/// A server that is a script for Node.
fn script(name: &str, file: &Path, args: &[&str], more: &str) -> String {
    let mut all = vec![file.display().to_string()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    format!(
        "[agents.a.mcp.{name}]\n{more}\ncommand = {{ program = \"node\", args = {} }}\n",
        json!(all)
    )
}

/// The tools that an agent has, once `wanted` of them.
async fn tools_when(client: &Client, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let agent = client.get("/v1/agents/a").await.ok();
        let tools = agent["tools"].as_array().unwrap().clone();
        if wanted(&tools) {
            return tools;
        }
        assert!(Instant::now() < until, "the tools never came: {tools:?}");
        // A list of tools gives no sign when it changes.
        sleep(Duration::from_millis(50)).await;
    }
}

fn has(tools: &[Value], name: &str) -> bool {
    tools.iter().any(|tool| tool["name"] == name)
}

/// Lets the model call a tool in a session, agrees to whatever the tool asks, and waits for the end of
/// the turn.
async fn call(client: &Client, session: &str, tool: &str, input: &Value) -> Value {
    let script = json!([{ "tool": tool, "input": input }, { "text": "done" }]);
    let body = json!({ "agent": "a", "content": format!("SCRIPT:{script}") });
    let path = format!("/v1/sessions/{session}/messages");
    let message = client.post(&path, &body).await.ok();
    let message = message["message_id"].as_str().unwrap().to_owned();
    let until = Instant::now() + PATIENCE;
    loop {
        let receipt = client.receipt(session, &message).await;
        if receipt["state"] == "completed" {
            return last_settled(client, session).await;
        }
        let running = matches!(
            receipt["state"].as_str(),
            Some("accepted" | "queued" | "running")
        );
        assert!(running && Instant::now() < until, "{tool}: {receipt}");
        let view = client.get(&format!("/v1/sessions/{session}")).await.ok();
        let waiting = &view["waiting"][0];
        if waiting["type"] == "input" {
            let call = waiting["call"].as_str().unwrap();
            let path = format!("/v1/sessions/{session}/calls/{call}/result");
            let content = agreed(&waiting["question"]["requests"]);
            let output = json!({ "action": "accept", "content": content });
            // It may be answered already, by the round before.
            let _answered = client.post(&path, &json!({ "output": output })).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The least that the one request of a question asks for.
fn agreed(requests: &Value) -> Value {
    let request = requests.as_object().unwrap().values().next().unwrap();
    let schema = &request["params"]["requestedSchema"];
    let names = schema["required"].as_array().cloned().unwrap_or_default();
    let names = names.iter().map(|name| name.as_str().unwrap().to_owned());
    let example = |name: &str| {
        let property = &schema["properties"][name];
        let choice = &property["enum"][0];
        match property["type"].as_str() {
            Some("boolean") => json!(true),
            Some("number" | "integer") => json!(1),
            _ if choice.is_string() => choice.clone(),
            _ if property["oneOf"][0]["const"].is_string() => property["oneOf"][0]["const"].clone(),
            _ => json!("example"),
        }
    };
    let content = names.map(|name| (name.clone(), example(&name)));
    Value::Object(content.collect())
}

/// The event that settled the last call.
async fn last_settled(client: &Client, session: &str) -> Value {
    let events = events(client, session).await;
    let settled = |event: &&Value| event["type"] == "call_settled";
    events.iter().rev().find(settled).unwrap().clone()
}

/// All events of a session's log.
async fn events(client: &Client, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/log?limit=1000");
    let page = client.get(&path).await.ok();
    let records = page["records"].as_array().unwrap();
    let entries = records
        .iter()
        .flat_map(|record| record["entries"].as_array().unwrap());
    entries
        .flat_map(|entry| entry["events"].as_array().unwrap().clone())
        .collect()
}

/// Lines of JSON that a server wrote down.
fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until a server has written down a line like this.
async fn line_when(file: &Path, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(line) = lines(file).into_iter().find(|line| wanted(line)) {
            return line;
        }
        assert!(
            Instant::now() < until,
            "{what} never came: {:?}",
            lines(file)
        );
        // Another process's file gives no sign.
        sleep(Duration::from_millis(20)).await;
    }
}
