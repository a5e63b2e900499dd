//! The neighbours themselves: what a test relies on when it judges the product.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client;
use steadfast_tests::ledger::{Behaviour, Check, Ledger};

async fn call(ledger: &Ledger, tool: &str, key: &str) -> Result<Value, String> {
    let request = client::http()
        .post(ledger.tool_url(tool))
        .header("idempotency-key", key)
        .timeout(Duration::from_millis(500))
        .json(&json!({ "amount": 5 }));
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = answer.json().await.map_err(|error| error.to_string())?;
    if status.is_success() {
        Ok(body)
    } else {
        Err(status.to_string())
    }
}

#[tokio::test]
async fn ledger_counts_effects_and_not_answers() {
    let ledger = Ledger::start().await;
    ledger.next("pay", Behaviour::EffectThenCut);
    ledger.next("pay", Behaviour::Cut);
    ledger.next("pay", Behaviour::EffectThenSilence);
    ledger.next("pay", Behaviour::Silence);
    ledger.next("pay", Behaviour::Status(503));
    for _ in 0..5 {
        assert!(call(&ledger, "pay", "k1").await.is_err());
    }
    assert_eq!(call(&ledger, "pay", "k2").await, Ok(json!({ "ok": true })));
    let effects: Vec<_> = ledger.effects().into_iter().collect();
    assert_eq!(effects, [("k1".to_owned(), 2), ("k2".to_owned(), 1)]);
    assert_eq!(ledger.entries().len(), 6);
}

#[tokio::test]
async fn ledger_check_tells_the_truth_unless_told_otherwise() {
    let ledger = Ledger::start().await;
    ledger.next("pay", Behaviour::EffectThenCut);
    assert!(call(&ledger, "pay", "k1").await.is_err());
    assert_eq!(
        call(&ledger, "pay/check", "k1").await,
        Ok(json!({ "state": "done", "result": { "ok": true } }))
    );
    assert_eq!(
        call(&ledger, "pay/check", "k2").await,
        Ok(json!({ "state": "not_done" }))
    );
    ledger.check_says("pay", Check::Unknown);
    assert_eq!(
        call(&ledger, "pay/check", "k1").await,
        Ok(json!({ "state": "unknown" }))
    );
    let entries = ledger.wait_until("four requests", |entries| entries.len() == 4);
    assert!(entries.await[3].check);
}
