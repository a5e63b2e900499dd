//! What may start while the Record that asks for it is still on its way to the disk.

use std::time::Duration;

use serde_json::json;
use steadfast_tests::crash_log::{CrashPoint, Moment};
use steadfast_tests::ledger::Ledger;
use steadfast_tests::product::Product;
use steadfast_tests::provider_events::{Say, Wire};
use steadfast_tests::provider_server::ProviderServer;

/// Requests that reach the tool while the Record of the model's reply is never written.
async fn requests_while_stalled(replay: &str, durability: &str) -> usize {
    /// Long against a request on loopback.
    const SILENCE: Duration = Duration::from_millis(700);
    let ledger = Ledger::start().await;
    let provider = ProviderServer::start().await;
    provider.says(Say::call("pay", &json!({})));
    let config = format!(
        "{}api_key = \"env:STEADFAST_TEST_KEY\"\n\
         [agents.clerk]\nmodel = \"fake/model-1\"\ndurability = \"{durability}\"\n\
         [[agents.clerk.tools]]\nname = \"pay\"\ndescription = \"Pays\"\nreplay = \"{replay}\"\n\
         input_schema = {{ type = \"object\" }}\nhttp = {{ url = \"{}\" }}\n",
        provider.table("fake", Wire::Anthropic),
        ledger.tool_url("pay"),
    );
    let point = CrashPoint {
        moment: Moment::Stall,
        event: "model_replied".to_owned(),
        nth: 1,
    };
    let binary = env!("CARGO_BIN_EXE_crashing-node");
    let mut product = Product::start_crashing(&config, binary, &point).await;
    let client = product.client();
    client.message("s1", "clerk", "m1", "pay").await.ok();
    provider.wait_for(1).await;
    // Nothing else shows that something did not happen.
    tokio::time::sleep(SILENCE).await;
    product.kill().await;
    ledger.entries().len()
}

#[tokio::test]
async fn a_safe_call_runs_ahead_of_its_record() {
    assert_eq!(requests_while_stalled("safe", "on").await, 1);
}

#[tokio::test]
async fn no_other_call_runs_ahead_of_its_record() {
    assert_eq!(requests_while_stalled("safe", "strict").await, 0);
    assert_eq!(requests_while_stalled("keyed", "on").await, 0);
    assert_eq!(requests_while_stalled("never", "on").await, 0);
}
