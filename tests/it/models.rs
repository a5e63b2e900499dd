//! Turns over each wire, with a provider that breaks and a node that crashes.

use serde_json::{Value, json};
use steadfast_tests::ledger::Ledger;
use steadfast_tests::product::Product;
use steadfast_tests::provider_events::{Say, Wire};
use steadfast_tests::provider_server::{Answer, ProviderServer};

fn configuration(provider: &ProviderServer, ledger: &Ledger, wire: Wire) -> String {
    format!(
        "[agents.desk]\nmodel = \"p/fake-model\"\ninstructions = \"Be brief.\"\n\n\
         [[agents.desk.tools]]\nname = \"pay\"\ndescription = \"Pays\"\nreplay = \"keyed\"\n\
         input_schema = {{ type = \"object\" }}\nhttp = {{ url = {:?} }}\n\n{}silence_timeout = \"5s\"\n",
        ledger.tool_url("pay"),
        provider.table("p", wire),
    )
}

/// Sends a message and waits for the end of its turn.
async fn turn(product: &Product, id: &str) -> Value {
    let body = json!({"id": id, "agent": "desk", "content": format!("please {id}")});
    let path = "/v1/sessions/s/messages?wait=60s";
    product.client().post(path, &body).await.ok()
}

fn list(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic | Wire::OpenAiChat => "messages",
        Wire::OpenAiResponses => "input",
    }
}

#[tokio::test]
async fn native_parts_go_back_after_a_crash() {
    for wire in Wire::ALL {
        let (provider, ledger) = (ProviderServer::start().await, Ledger::start().await);
        let mut product = Product::start(&configuration(&provider, &ledger, wire)).await;
        let say = Say::text("I pay.").after_reasoning("money, then");
        provider.says(
            say.and_call("pay", &json!({"n": 1}))
                .and_call("pay", &json!({"n": 2})),
        );
        provider.says(Say::text("Paid."));
        turn(&product, "m1").await;
        let before = provider.asked()[1].body[list(wire)].clone();
        assert_eq!(ledger.effects().len(), 2);

        product.crash().await;
        provider.says(Say::text("You are welcome."));
        turn(&product, "m2").await;
        let after = provider.asked()[2].body[list(wire)].clone();
        let (before, after) = (plain(&before), plain(&after));
        assert_eq!(after[..before.len()], before, "{wire:?}");
        let text = serde_json::to_string(&before).unwrap();
        let secret = match wire {
            Wire::Anthropic => "sig_0",
            Wire::OpenAiChat => "money, then",
            Wire::OpenAiResponses => "enc_0",
        };
        assert!(text.contains(secret), "{text}");
    }
}

/// A history without the marks that tell a provider where its cache may end.
fn plain(history: &Value) -> Vec<Value> {
    let mut items = history.as_array().unwrap().clone();
    for item in &mut items {
        for block in item["content"].as_array_mut().into_iter().flatten() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    items
}

#[tokio::test]
async fn an_overloaded_provider_is_asked_again() {
    let (provider, ledger) = (ProviderServer::start().await, Ledger::start().await);
    let configuration = configuration(&provider, &ledger, Wire::Anthropic);
    let product = Product::start(&configuration).await;
    let half = Say::text("Once").events(Wire::Anthropic, 0);
    provider.next(Answer::status(529));
    provider.next(Answer::EventsThenCut(half[..half.len() / 2].to_owned()));
    provider.says(Say::text("Here I am."));
    let answer = turn(&product, "m1").await;
    assert_eq!(answer["state"], "completed", "{answer}");
    assert_eq!(provider.asked().len(), 3);
}

#[tokio::test]
async fn a_refused_key_fails_the_turn_and_the_session_goes_on() {
    let (provider, ledger) = (ProviderServer::start().await, Ledger::start().await);
    let configuration = configuration(&provider, &ledger, Wire::OpenAiResponses);
    let product = Product::start(&configuration).await;
    provider.next(Answer::status(401));
    let failed = turn(&product, "m1").await;
    assert_eq!(failed["state"], "failed", "{failed}");
    provider.says(Say::text("Now."));
    let answer = turn(&product, "m2").await;
    assert_eq!(answer["state"], "completed", "{answer}");
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn a_full_window_is_answered_by_a_summary_and_another_try() {
    let (provider, ledger) = (ProviderServer::start().await, Ledger::start().await);
    let configuration = configuration(&provider, &ledger, Wire::OpenAiChat);
    let product = Product::start(&configuration).await;
    provider.says(Say::text("First."));
    turn(&product, "m1").await;
    let full = json!({"error": {"code": "context_length_exceeded", "message": "too long"}});
    provider.next(Answer::Status(400, vec![], full.to_string()));
    provider.says(Say::text("They said hello."));
    provider.says(Say::text("Second."));
    let answer = turn(&product, "m2").await;
    assert_eq!(answer["state"], "completed", "{answer}");
    let asked = provider.asked();
    let summary = asked[2].body.to_string();
    assert!(summary.contains("Write the summary") && !summary.contains("\"tools\""));
    assert!(asked[3].body.to_string().contains("They said hello."));
}
