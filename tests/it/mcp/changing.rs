//! A server whose tools change, which is killed, and whose calls are cancelled or cut off.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::left_out;
use steadfast_tests::product::Product;
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

use super::{
    PATIENCE, agent, call, events, has, last_settled, line_when, lines, packages, script,
    tools_when,
};

pub(super) struct World {
    pub(super) product: Product,
    folder: TempDir,
}

impl World {
    /// A node with one server that has these tools.
    pub(super) async fn start(tools: &Value, more: &str) -> Result<Self, String> {
        let packages = packages().await?;
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("tools.json");
        fs::write(&file, tools.to_string()).unwrap();
        let ledger = folder.path().join("ledger");
        let (file, ledger) = (file.display().to_string(), ledger.display().to_string());
        let server = script(
            "odd",
            &packages.join("changing.js"),
            &[&file, &ledger],
            more,
        );
        let product = Product::start(&agent(&server)).await;
        Ok(Self { product, folder })
    }

    pub(super) fn client(&self) -> Client {
        self.product.client()
    }

    pub(super) fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    fn change(&self, tools: &Value) {
        // A watched file that is half written would be read so.
        let new = self.folder.path().join("new.json");
        fs::write(&new, tools.to_string()).unwrap();
        fs::rename(new, self.folder.path().join("tools.json")).unwrap();
    }

    pub(super) fn calls(&self, tool: &str) -> Vec<Value> {
        let is_call = |line: &Value| line["tool"] == tool && line["cancelled"].is_null();
        lines(&self.ledger()).into_iter().filter(is_call).collect()
    }
}

pub(super) fn tool(name: &str, properties: Value, required: &[&str]) -> Value {
    json!({
        "name": name, "description": name,
        "inputSchema": { "type": "object", "properties": properties, "required": required },
    })
}

fn kill(line: &Value) {
    let pid = i32::try_from(line["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Begins a turn that calls a tool.
pub(super) async fn begin(client: &Client, session: &str, tool: &str) {
    let script = json!([{ "tool": tool, "input": {} }, { "text": "done" }]);
    let text = format!("SCRIPT:{script}");
    client.message(session, "a", "m1", &text).await.ok();
}

pub(super) async fn ended(client: &Client, session: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let receipt = client.receipt(session, "m1").await;
        if !matches!(
            receipt["state"].as_str(),
            Some("queued" | "running" | "accepted")
        ) {
            return receipt;
        }
        assert!(Instant::now() < until, "the turn never ended: {receipt}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_comes_back_and_the_rule_decides_the_call() {
    let test = "a_server_that_dies_in_a_call_comes_back_and_the_rule_decides_the_call";
    let safe = json!({
        "name": "slow_safe", "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    });
    let tools = json!([tool("slow", json!({}), &[]), safe]);
    let world = match World::start(&tools, "trusted = true").await {
        Ok(world) => world,
        Err(why) => return left_out::say(test, &why),
    };
    let client = world.client();
    tools_when(&client, |tools| has(tools, "odd__slow")).await;
    begin(&client, "never", "odd__slow").await;
    let line = line_when(&world.ledger(), "the call", |line| line["tool"] == "slow").await;
    kill(&line);
    assert_eq!(ended(&client, "never").await["state"], "completed");
    let settled = last_settled(&client, "never").await;
    assert_eq!(settled["settlement"], "in_doubt");
    assert_eq!(world.calls("slow").len(), 1);

    begin(&client, "safe", "odd__slow_safe").await;
    let first = line_when(&world.ledger(), "the call", |line| {
        line["tool"] == "slow_safe"
    })
    .await;
    kill(&first);
    let again = |line: &Value| line["tool"] == "slow_safe" && line["pid"] != first["pid"];
    let second = line_when(&world.ledger(), "the second attempt", again).await;
    assert_eq!(second["key"], first["key"]);
    client
        .post("/v1/sessions/safe/cancel", &json!({}))
        .await
        .ok();
    line_when(&world.ledger(), "the cancellation", |line| {
        line["cancelled"] == true
    })
    .await;
    assert_eq!(ended(&client, "safe").await["state"], "cancelled");
}

#[tokio::test]
async fn a_node_that_dies_in_a_call_takes_its_servers_along_and_the_rule_decides_the_call() {
    let test = "a_node_that_dies_in_a_call_takes_its_servers_along_and_the_rule_decides_the_call";
    let safe = json!({
        "name": "slow_safe", "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    });
    let tools = json!([tool("slow", json!({}), &[]), safe]);
    let mut world = match World::start(&tools, "trusted = true").await {
        Ok(world) => world,
        Err(why) => return left_out::say(test, &why),
    };
    let client = world.client();
    tools_when(&client, |tools| has(tools, "odd__slow")).await;
    begin(&client, "never", "odd__slow").await;
    begin(&client, "safe", "odd__slow_safe").await;
    line_when(&world.ledger(), "the call", |line| line["tool"] == "slow").await;
    let first = line_when(&world.ledger(), "the call", |line| {
        line["tool"] == "slow_safe"
    })
    .await;
    world.product.kill().await;
    gone(first["pid"].as_i64().unwrap()).await;
    world.product.start_again().await;
    assert_eq!(ended(&client, "never").await["state"], "completed");
    assert_eq!(
        last_settled(&client, "never").await["settlement"],
        "in_doubt"
    );
    assert_eq!(world.calls("slow").len(), 1);
    let again = |line: &Value| line["tool"] == "slow_safe" && line["pid"] != first["pid"];
    let second = line_when(&world.ledger(), "the second attempt", again).await;
    assert_eq!(second["key"], first["key"]);
    client
        .post("/v1/sessions/safe/cancel", &json!({}))
        .await
        .ok();
    assert_eq!(ended(&client, "safe").await["state"], "cancelled");
    let status = world.product.terminate().await;
    assert!(status.success(), "{status}\n{}", world.product.log());
    gone(second["pid"].as_i64().unwrap()).await;
}

/// Waits until a process is gone, or only its parent has yet to hear of it.
async fn gone(pid: i64) {
    let until = Instant::now() + PATIENCE;
    let lives = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    };
    while lives() {
        assert!(Instant::now() < until, "process {pid} outlives its node");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn tools_that_change_are_noticed_and_told() {
    let test = "tools_that_change_are_noticed_and_told";
    let one = tool("one", json!({}), &[]);
    let world = match World::start(&json!([one]), "").await {
        Ok(world) => world,
        Err(why) => return left_out::say(test, &why),
    };
    let client = world.client();
    tools_when(&client, |tools| has(tools, "odd__one")).await;
    let result = call(&client, "s", "odd__one", &json!({})).await;
    assert_eq!(result["settlement"], "done");
    // Another shape, and another tool: the model is told before its next request.
    let strict = tool("one", json!({ "n": { "type": "integer" } }), &["n"]);
    world.change(&json!([strict, tool("two", json!({}), &[])]));
    tools_when(&client, |tools| has(tools, "odd__two")).await;
    let result = call(&client, "s", "odd__one", &json!({})).await;
    assert_eq!(result["settlement"], "refused");
    let words = result["output"]["output"]["inline"]["text"]
        .as_str()
        .unwrap();
    assert!(words.contains("invalid arguments"), "{words}");
    // One that is gone.
    world.change(&json!([tool("two", json!({}), &[])]));
    tools_when(&client, |tools| !has(tools, "odd__one")).await;
    let result = call(&client, "s", "odd__one", &json!({ "n": 1 })).await;
    assert_eq!(result["settlement"], "refused");
    let words = result["output"]["output"]["inline"]["text"]
        .as_str()
        .unwrap();
    assert!(
        words.contains("the MCP server \"odd\" does not offer it"),
        "{words}"
    );
    assert_eq!(world.calls("one").len(), 1);
    let events = events(&client, "s").await;
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "tools_offered")
        .map(|event| &event["note"])
        .collect();
    assert_eq!(
        told,
        [
            &Value::Null,
            &json!("Your tools changed: tools that changed: odd__one; new tools: odd__two."),
            &json!("Your tools changed: tools that are gone: odd__one."),
        ]
    );
}

#[tokio::test]
async fn a_call_of_a_tool_that_changed_since_it_was_offered_does_not_run() {
    let test = "a_call_of_a_tool_that_changed_since_it_was_offered_does_not_run";
    let world = match World::start(&json!([tool("one", json!({}), &[])]), "").await {
        Ok(world) => world,
        Err(why) => return left_out::say(test, &why),
    };
    let client = world.client();
    tools_when(&client, |tools| has(tools, "odd__one")).await;
    // The model thinks for a while, and meanwhile the tool becomes another that takes the same.
    let script = json!([{ "hang": 3, "tool": "odd__one", "input": {} }, { "text": "done" }]);
    let text = format!("SCRIPT:{script}");
    client.message("s", "a", "m1", &text).await.ok();
    let offered = async || {
        events(&client, "s")
            .await
            .iter()
            .any(|event| event["type"] == "tools_offered")
    };
    while !offered().await {
        sleep(Duration::from_millis(20)).await;
    }
    let wider = tool("one", json!({ "n": { "type": "integer" } }), &[]);
    world.change(&json!([wider]));
    assert_eq!(ended(&client, "s").await["state"], "completed");
    let result = last_settled(&client, "s").await;
    let all = events(&client, "s").await;
    assert_eq!(result["settlement"], "refused", "{all:#?}");
    let words = result["output"]["output"]["inline"]["text"]
        .as_str()
        .unwrap();
    assert!(
        words.contains("this tool has changed since it was offered"),
        "{words}"
    );
    assert_eq!(world.calls("one").len(), 0);
}
