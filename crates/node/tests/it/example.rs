//! The example of the library does what its first lines say.

use serde_json::{Value, json};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "here it is a module, else a program"
)]
#[path = "../../examples/refund_desk.rs"]
mod refund_desk;

#[tokio::test]
async fn the_refund_desk_refunds_and_goes_on_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let node = refund_desk::start(data.path(), listen).await.unwrap();
    let http = reqwest::Client::new();
    let say = async |url: String, content: &str| -> Value {
        let body = json!({ "agent": "support", "content": content });
        let path = format!("{url}/v1/sessions/s1/messages?wait=30s");
        let response = http.post(path).json(&body).send().await.unwrap();
        response.json().await.unwrap()
    };
    let answer = say(
        node.url(),
        "call refund_order: 500 cents for order \"blue-shoes\"",
    )
    .await;
    assert_eq!(answer["state"], "completed", "{answer}");
    let text = answer["text"].as_str().unwrap();
    assert!(
        text.contains("refunded 500 cents of order blue-shoes under key default/s1/"),
        "{text}"
    );
    node.shutdown().await;

    let node = refund_desk::start(data.path(), listen).await.unwrap();
    let transcript: Value = http
        .get(format!("{}/v1/sessions/s1/messages", node.url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        transcript["messages"].as_array().unwrap().len(),
        2,
        "{transcript}"
    );
    let answer = say(node.url(), "hello").await;
    assert_eq!(answer["state"], "completed", "{answer}");
    node.shutdown().await;
}
