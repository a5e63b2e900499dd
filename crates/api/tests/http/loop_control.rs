//! What a message says about the loop of its turn.

use serde_json::{Value, json};

use crate::world::World;

fn schema() -> Value {
    json!({"type": "object", "required": ["celsius"],
        "properties": {"celsius": {"type": "number"}}, "additionalProperties": false})
}

#[tokio::test]
async fn an_answer_fits_the_schema_of_its_message_or_the_turn_fails() {
    let world = World::new().await;
    world.session("s1").await;
    let send = |id: &str, answers: &[&str]| {
        let steps: Vec<Value> = answers.iter().map(|text| json!({"text": text})).collect();
        let content = format!("SCRIPT:{}", Value::from(steps));
        let body = json!({"id": id, "content": content, "output_schema": schema()});
        world.post("/v1/sessions/s1/messages?wait=30s", body)
    };
    let repaired = send(
        "m1",
        &["It is warm.", "{\"celsius\": \"21\"}", "{\"celsius\": 21}"],
    )
    .await;
    let repaired = repaired.ok(200);
    assert_eq!(
        (&repaired["state"], &repaired["text"]),
        (&json!("completed"), &json!("{\"celsius\": 21}"))
    );
    let failed = send("m2", &["warm", "warmer", "hot", "{\"celsius\": 21}"])
        .await
        .ok(200);
    assert_eq!(
        (&failed["state"], &failed["error"]["code"]),
        (&json!("failed"), &json!("answer_unfit"))
    );
    let plain = json!({"id": "m3", "content": "SCRIPT:[{\"text\": \"warm\"}]"});
    let plain = world.post("/v1/sessions/s1/messages?wait=30s", plain).await;
    assert_eq!(plain.ok(200)["state"], "completed");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let world = World::new().await;
    world.session("s1").await;
    for (more, code) in [
        (
            json!({"output_schema": {"type": "objekt"}}),
            "field_invalid",
        ),
        (
            json!({"output_schema": {"$ref": "https://example.org/s.json"}}),
            "field_invalid",
        ),
        (
            json!({"output_schema": {"description": "x".repeat(17 * 1024)}}),
            "field_invalid",
        ),
        (
            json!({"output_schema": schema(), "when_busy": "steer"}),
            "field_invalid",
        ),
        (
            json!({"tool_choice": "required", "when_busy": "steer"}),
            "field_invalid",
        ),
        (
            json!({"tool_choice": {"tool": "get_wether"}}),
            "tool_unknown",
        ),
        (json!({"tool_choice": "always"}), "field_invalid"),
    ] {
        let mut body = json!({"content": "x"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let answer = world.post("/v1/sessions/s1/messages", body).await;
        assert_eq!(answer.problem(), (400, code), "{more}");
    }
}
