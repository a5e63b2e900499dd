//! A request that seemed lost arrives late, while its session still has the same owner.

use std::time::Duration;

use serde_json::json;
use steadfast_tests::client::http;
use steadfast_tests::ledger::{Behaviour, Check, Entry, Ledger};
use steadfast_tests::product::Product;

fn agents(ledger: &Ledger) -> String {
    format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.a]\nmodel = \"scripted/demo\"\n\
         [[agents.a.tools]]\nname = \"pay\"\ndescription = \"Pays\"\nreplay = \"never\"\n\
         check = true\nhttp = {{ url = {:?}, timeout = \"1s\" }}\n",
        ledger.tool_url("pay")
    )
}

/// Sends a request once more, as it was.
async fn arrives_again(ledger: &Ledger, entry: &Entry) -> u16 {
    let mut request = http().post(ledger.tool_url("pay"));
    for (name, value) in &entry.request.headers {
        if name.starts_with("steadfast-") || name == "idempotency-key" {
            request = request.header(name, value);
        }
    }
    let body = entry.request.body.clone();
    let answer = request.timeout(Duration::from_secs(10)).body(body).send();
    answer.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_late_first_request_is_fenced_off_by_the_check_within_one_epoch() {
    let ledger = Ledger::start().await;
    ledger.next("pay", Behaviour::Silence);
    ledger.check_says("pay", Check::Truth);
    let mut product = Product::start(&agents(&ledger)).await;
    let script = json!([{ "tool": "pay", "input": {} }]);
    let client = product.client();
    let path = "/v1/sessions/s1/messages?wait=40s";
    let text = format!("SCRIPT: {script}");
    let body = json!({ "id": "m1", "agent": "a", "content": text });
    let receipt = client.post(path, &body).await.ok();
    assert_eq!(receipt["state"], "completed", "{receipt}");
    let entries = ledger.entries();
    let [first, check, second] = entries.as_slice() else {
        panic!("an attempt, its check, another attempt: {entries:#?}");
    };
    let header = |entry: &Entry, name| entry.request.header(name).unwrap().to_owned();
    let of_all = |name| [first, check, second].map(|entry| header(entry, name));
    assert_eq!(of_all("steadfast-epoch"), ["1", "1", "1"]);
    assert_eq!(of_all("steadfast-attempt"), ["1", "1", "2"]);
    let fences = of_all("steadfast-fence");
    assert!(
        fences[0] == fences[1] && fences[1] < fences[2],
        "{fences:?}"
    );

    assert_eq!(arrives_again(&ledger, first).await, 409);
    let effects: Vec<usize> = ledger.effects().into_values().collect();
    assert_eq!(effects, [1]);
    product.kill().await;
}
