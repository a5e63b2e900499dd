//! Servers that ask somebody before they go on with a call.

use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::left_out;
use steadfast_tests::product::Product;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::changing::{World, begin, ended, tool};
use super::{
    Duration, PATIENCE, agent, events, has, last_settled, line_when, lines, packages, script,
    tools_when,
};

/// The question that a session waits for.
async fn question(client: &Client, session: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let view = client.get(&format!("/v1/sessions/{session}")).await.ok();
        if view["waiting"][0]["type"] == "input" {
            assert_eq!(view["status"], "waiting");
            return view["waiting"][0].clone();
        }
        assert!(Instant::now() < until, "nothing is asked: {view}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn answer(client: &Client, session: &str, call: &Value, output: Value) {
    let call = call["call"].as_str().unwrap();
    let path = format!("/v1/sessions/{session}/calls/{call}/result");
    client.post(&path, &json!({ "output": output })).await.ok();
}

fn text(settled: &Value) -> &str {
    settled["output"]["output"]["inline"]["text"]
        .as_str()
        .unwrap()
}

#[tokio::test]
async fn a_question_outlives_the_node_and_the_answer_goes_on_from_there() {
    let test = "a_question_outlives_the_node_and_the_answer_goes_on_from_there";
    let packages = match packages().await {
        Ok(packages) => packages,
        Err(why) => return left_out::say(test, &why),
    };
    let folder = TempDir::new().unwrap();
    let ledger = folder.path().join("ledger");
    let shown = ledger.display().to_string();
    let server = script("shop", &packages.join("asking.js"), &[&shown], "");
    let mut product = Product::start(&agent(&server)).await;
    let client = product.client();
    tools_when(&client, |tools| has(tools, "shop__order")).await;
    begin(&client, "s", "shop__order").await;
    let asked = question(&client, "s").await;
    let message = &asked["question"]["requests"]["size"]["params"]["message"];
    assert_eq!(message, "Which size?", "{asked}");
    product.kill().await;
    product.start_again().await;
    let again = question(&client, "s").await;
    assert_eq!(again, asked);
    // An answer that does not fit is asked again, with what is wrong with it.
    answer(
        &client,
        "s",
        &asked,
        json!({ "action": "accept", "content": { "size": "xl" } }),
    )
    .await;
    let until = Instant::now() + PATIENCE;
    let wrong = loop {
        let wrong = question(&client, "s").await;
        if !wrong["question"]["problem"].is_null() {
            break wrong;
        }
        assert!(Instant::now() < until, "nothing is wrong: {wrong}");
    };
    assert!(
        wrong["question"]["problem"]
            .as_str()
            .unwrap()
            .contains("/size"),
        "{wrong}"
    );
    answer(
        &client,
        "s",
        &wrong,
        json!({ "action": "accept", "content": { "size": "m" } }),
    )
    .await;
    assert_eq!(ended(&client, "s").await["state"], "completed");
    assert_eq!(text(&last_settled(&client, "s").await), "the order 7 in m");
    assert_eq!(lines(&ledger).len(), 2, "{:?}", lines(&ledger));

    // A new message dismisses the question.
    begin(&client, "t", "shop__order").await;
    question(&client, "t").await;
    client.message("t", "a", "m2", "never mind").await.ok();
    assert_eq!(ended(&client, "t").await["state"], "completed");
    assert_eq!(text(&last_settled(&client, "t").await), "no order: cancel");
}

#[tokio::test]
async fn a_call_that_is_held_open_goes_on_with_the_answer_or_is_decided_by_its_rule() {
    let test = "a_call_that_is_held_open_goes_on_with_the_answer_or_is_decided_by_its_rule";
    let safe = json!({
        "name": "ask_safe", "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    });
    let tools = json!([tool("ask", json!({}), &[]), safe]);
    let mut world = match World::start(&tools, "trusted = true").await {
        Ok(world) => world,
        Err(why) => return left_out::say(test, &why),
    };
    let client = world.client();
    tools_when(&client, |tools| has(tools, "odd__ask")).await;
    let given = || json!({ "action": "accept", "content": { "size": "l" } });
    let said = "answered {\"action\":\"accept\",\"content\":{\"gift\":true,\"size\":\"l\"}}";
    begin(&client, "s", "odd__ask").await;
    let asked = question(&client, "s").await;
    answer(&client, "s", &asked, given()).await;
    assert_eq!(ended(&client, "s").await["state"], "completed");
    assert_eq!(text(&last_settled(&client, "s").await), said);
    assert_eq!(world.calls("ask").len(), 1);

    // The node dies while people are asked, and the open call with it.
    begin(&client, "never", "odd__ask").await;
    let never = question(&client, "never").await;
    world.product.kill().await;
    world.product.start_again().await;
    tools_when(&client, |tools| has(tools, "odd__ask")).await;
    answer(&client, "never", &never, given()).await;
    assert_eq!(ended(&client, "never").await["state"], "completed");
    assert_eq!(
        last_settled(&client, "never").await["settlement"],
        "in_doubt"
    );
    assert_eq!(world.calls("ask").len(), 2);

    begin(&client, "safe", "odd__ask_safe").await;
    let safe = question(&client, "safe").await;
    world.product.kill().await;
    world.product.start_again().await;
    tools_when(&client, |tools| has(tools, "odd__ask_safe")).await;
    answer(&client, "safe", &safe, given()).await;
    assert_eq!(ended(&client, "safe").await["state"], "completed");
    assert_eq!(text(&last_settled(&client, "safe").await), said);
    let keys: Vec<Value> = world
        .calls("ask_safe")
        .iter()
        .map(|call| call["key"].clone())
        .collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    line_when(&world.ledger(), "a start", |line| line["started"] == true).await;
    assert!(!events(&client, "safe").await.is_empty());
}
