use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_core::content::{ContentPart, ToolOutput};
use steadfast_core::input::CallOutcome;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::catalog::Catalog;
use crate::testing::{KEY, io, job, job_within};
use crate::worker::{Job, ToolIo};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Order {
    /// Number of the order.
    id: u32,
    #[serde(default)]
    urgent: bool,
}

async fn run_with(tool: ToolDefinition, job: Job, io: ToolIo) -> CallOutcome {
    let catalog = Catalog::builder().with(tool).build().unwrap();
    let worker = catalog.tools()[0].worker.clone().unwrap();
    worker.run(job, io).await
}

async fn run(tool: ToolDefinition) -> CallOutcome {
    run_with(tool, job(json!({ "id": 7 })), io()).await
}

fn done(output: impl Into<ToolOutput>) -> CallOutcome {
    CallOutcome::Done(output.into().into())
}

fn failing(failure: fn() -> ToolFailure) -> ToolDefinition {
    function("fail", "Fails", move |_: Order, _| async move {
        Err::<String, _>(failure())
    })
}

#[test]
fn the_schema_comes_from_the_input_type() {
    assert_eq!(
        schema_of::<Order>(),
        json!({
            "title": "Order",
            "type": "object",
            "properties": {
                "id": {
                    "description": "Number of the order.",
                    "type": "integer", "format": "uint32", "minimum": 0,
                },
                "urgent": { "type": "boolean", "default": false },
            },
            "required": ["id"],
        })
    );
}

#[tokio::test]
async fn plain_rust_values_are_results() {
    let text = function("t", "", |order: Order, _| async move {
        Ok(format!("{order:?}"))
    });
    assert_eq!(run(text).await, done("Order { id: 7, urgent: false }"));
    let json = function("t", "", |order: Order, _| async move { Ok(Json(order)) });
    assert_eq!(run(json).await, done(json!({ "id": 7, "urgent": false })));
    let parts = || {
        vec![ContentPart::Text {
            text: "a".to_owned(),
        }]
    };
    let rich = function("t", "", move |_: Order, _| async move { Ok(parts()) });
    assert_eq!(run(rich).await, done(parts()));
}

#[tokio::test]
async fn a_failure_is_the_outcome_that_the_function_says() {
    assert_eq!(
        run(failing(|| ToolFailure::told("no"))).await,
        done(ToolOutput::error("no"))
    );
    assert_eq!(
        run(failing(|| ToolFailure::told_json(json!({ "code": 1 })))).await,
        done(ToolOutput::ErrorJson {
            value: json!({ "code": 1 })
        })
    );
    assert_eq!(
        run(failing(|| ToolFailure::retry_after(
            "busy",
            Duration::from_secs(2)
        )))
        .await,
        CallOutcome::Retry {
            detail: "busy".to_owned(),
            retry_after_ms: Some(2_000)
        }
    );
    assert_eq!(
        run(failing(|| ToolFailure::unknown("lost"))).await,
        CallOutcome::Unknown {
            detail: "lost".to_owned()
        }
    );
}

#[tokio::test]
async fn an_error_by_question_mark_is_known_only_of_a_safe_tool() {
    let tool = || {
        function("t", "", |_: Order, _| async move {
            let number: u32 = "x".parse()?;
            Ok(number.to_string())
        })
    };
    let detail = "invalid digit found in string".to_owned();
    let unknown = CallOutcome::Unknown {
        detail: detail.clone(),
    };
    assert_eq!(run(tool().safe()).await, done(ToolOutput::error(detail)));
    assert_eq!(run(tool().keyed()).await, unknown);
    assert_eq!(run(tool()).await, unknown);
}

#[tokio::test]
async fn an_input_that_the_type_refuses_reaches_the_model_and_not_the_function() {
    let tool = function("t", "", |_: Order, _| async move { Ok("ran") });
    let outcome = run_with(tool, job(json!({ "id": -1 })), io()).await;
    let words = "invalid arguments, nothing was done: invalid value: integer `-1`, expected u32";
    assert_eq!(outcome, done(ToolOutput::error(words)));
}

#[tokio::test(start_paused = true)]
async fn a_function_out_of_time_is_asked_to_stop_and_unknown_if_it_does_not() {
    let deaf = function("t", "", |_: Order, _| async move {
        Ok(std::future::pending::<String>().await)
    });
    let polite = function("t", "", |_: Order, call: ToolCall| async move {
        call.cancelled().cancelled().await;
        Ok(format!("stopped with {:?} left", call.remaining()))
    });
    let input = || job_within(json!({ "id": 1 }), 10_000);
    let no_outcome = "no outcome within 10000 ms".to_owned();
    assert_eq!(
        run_with(deaf, input(), io()).await,
        CallOutcome::Unknown { detail: no_outcome }
    );
    assert_eq!(
        run_with(polite, input(), io()).await,
        done("stopped with 0ns left")
    );
}

#[tokio::test]
async fn a_function_without_time_did_nothing() {
    let tool = function("t", "", |_: Order, _| async move { Ok("ran") });
    let did_nothing = CallOutcome::Retry {
        detail: "no time was left to start it".to_owned(),
        retry_after_ms: None,
    };
    assert_eq!(
        run_with(tool, job_within(json!({ "id": 1 }), 0), io()).await,
        did_nothing
    );
}

#[tokio::test]
async fn a_function_sees_its_call_and_shows_progress() {
    let tool = function("t", "", |_: Order, call: ToolCall| async move {
        call.progress("half");
        call.progress("dropped, since nobody reads");
        call.cancelled().cancelled().await;
        let seen = (
            call.key(),
            call.attempt(),
            call.epoch(),
            call.turn(),
            call.session().to_string(),
        );
        Ok(format!(
            "{seen:?} {:?} {}",
            call.approval_reason(),
            call.metadata()
        ))
    });
    let (progress, mut shown) = mpsc::channel(1);
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let mut job = job(json!({ "id": 1 }));
    job.approval_reason = Some("fine".to_owned());
    job.metadata = json!({ "user": "ada" });
    let outcome = run_with(tool, job, ToolIo::new(cancelled, progress)).await;
    let seen = format!(
        "(\"{KEY}\", 2, Epoch(4), TurnId(Seq(12)), \"acme/s1\") Some(\"fine\") {{\"user\":\"ada\"}}"
    );
    assert_eq!(outcome, done(seen));
    assert_eq!(shown.recv().await, Some(json!("half")));
    assert_eq!(shown.recv().await, None);
}
