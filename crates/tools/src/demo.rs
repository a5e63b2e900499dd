//! Tools to try the product with: one of each kind. They reach nothing outside, answer the same to
//! the same question, and say that they are a demo.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use steadfast_core::command::Digest;

use crate::definition::ToolDefinition;
use crate::function::{Json, ToolCall, ToolFailure, function, schema_of};
use crate::spec::Approval;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct City {
    /// Name of the city.
    #[schemars(length(min = 1, max = 100))]
    city: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Report {
    /// What the report is about.
    #[schemars(length(min = 1, max = 200))]
    topic: String,
    /// How many seconds it takes.
    #[serde(default = "a_few_seconds")]
    #[schemars(range(min = 0, max = 120))]
    seconds: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    /// The note.
    #[schemars(length(min = 1, max = 10_000))]
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refund {
    /// Number of the order.
    #[schemars(length(min = 1, max = 64))]
    order: String,
    /// How much, in cents.
    #[schemars(range(min = 1, max = 1_000_000))]
    amount_cents: u64,
    /// How many seconds the payment service pretends to need.
    #[serde(default)]
    #[schemars(range(min = 0, max = 120))]
    seconds: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only its schema is used: the client reads the input"
)]
struct Question {
    /// What to ask the user.
    #[schemars(length(min = 1, max = 1_000))]
    question: String,
}

fn a_few_seconds() -> u64 {
    5
}

/// All demo tools.
pub fn tools() -> Vec<ToolDefinition> {
    vec![weather(), report(), note(), refund(), question()]
}

/// `safe`: may run again, and asks nobody.
fn weather() -> ToolDefinition {
    let description = "Today's weather of a city (demo: made up from the city's name)";
    function(
        "get_weather",
        description,
        |input: City, _call| async move {
            let Digest(number) = Digest::of(input.city.to_lowercase().as_bytes());
            let sky = match number % 4 {
                0 => "sunny",
                1 => "cloudy",
                2 => "rainy",
                _ => "windy",
            };
            Ok(Json(json!({
                "city": input.city,
                "sky": sky,
                "temperature_celsius": (number >> 8) % 35,
                "demo": true,
            })))
        },
    )
    .safe()
}

/// `safe`, slow, with progress: to see a node die in the middle of it.
fn report() -> ToolDefinition {
    let description = "Writes a report, slowly (demo: it only waits)";
    function(
        "write_report",
        description,
        |input: Report, call| async move {
            for second in 0..input.seconds {
                call.progress(json!({ "seconds_done": second, "seconds": input.seconds }));
                pretend_to_work(&call, 1).await?;
            }
            let topic = input.topic;
            Ok(format!(
                "A report on {topic} would stand here. (demo, attempt {})",
                call.attempt()
            ))
        },
    )
    .safe()
}

/// `keyed`: may run again under the same key, by which it gives the same answer.
fn note() -> ToolDefinition {
    let description = "Stores a note and gives its id (demo: nothing is stored)";
    function("create_note", description, |input: Note, call| async move {
        let letters = input.text.chars().count();
        Ok(Json(
            json!({ "id": made_of(&call.key(), "note"), "letters": letters, "demo": true }),
        ))
    })
    .keyed()
}

/// `never`: a person agrees first, and a call cut off by a crash is in doubt.
fn refund() -> ToolDefinition {
    let description = "Refunds an order, after a person agreed (demo: no money moves)";
    function(
        "refund_order",
        description,
        |input: Refund, call| async move {
            pretend_to_work(&call, input.seconds).await?;
            Ok(Json(json!({
                "id": made_of(&call.key(), "refund"),
                "order": input.order,
                "amount_cents": input.amount_cents,
                "reason_of_approval": call.approval_reason(),
                "demo": true,
            })))
        },
    )
    .approval(Approval::UserApproval)
}

/// Runs at the client: the turn waits for the answer.
fn question() -> ToolDefinition {
    let description = "Asks the user a question and waits for the answer";
    ToolDefinition::client_side("ask_user", description, schema_of::<Question>())
}

/// Waits; a cancel ends it in the middle, and then nobody knows how far the work had come.
async fn pretend_to_work(call: &ToolCall, seconds: u64) -> Result<(), ToolFailure> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(()),
        () = call.cancelled().cancelled() => Err(ToolFailure::unknown("cancelled at work")),
    }
}

/// An id that is the same for the same key.
fn made_of(key: &str, kind: &str) -> String {
    let Digest(number) = Digest::of(key.as_bytes());
    format!("{kind}-{number:016x}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use steadfast_core::content::{CallInput, ToolOutput};
    use steadfast_core::input::{CallOutcome, Gate, Place, ReplayRule};

    use super::*;
    use crate::catalog::Catalog;
    use crate::filter::ToolFilter;
    use crate::testing::{io, job};

    fn catalog() -> Catalog {
        Catalog::builder().with_all(tools()).build().unwrap()
    }

    async fn run(tool: &str, input: Value) -> CallOutcome {
        let catalog = catalog();
        let gate = catalog
            .triage(
                tool,
                &CallInput::Json(input.clone()),
                &ToolFilter::default(),
            )
            .gate;
        assert!(!matches!(gate, Gate::Refused { .. }), "{gate:?}");
        let worker = catalog.get(tool).unwrap().worker.clone().unwrap();
        worker.run(job(input), io()).await
    }

    #[test]
    fn there_is_one_of_each_kind() {
        let catalog = catalog();
        let tools = catalog.tools();
        let kinds: Vec<_> = tools
            .iter()
            .map(|tool| (tool.spec.name.as_str(), tool.spec.replay, tool.spec.place))
            .collect();
        assert_eq!(
            kinds,
            [
                ("get_weather", ReplayRule::Safe, Place::Local),
                ("write_report", ReplayRule::Safe, Place::Local),
                ("create_note", ReplayRule::Keyed, Place::Local),
                ("refund_order", ReplayRule::Never, Place::Local),
                ("ask_user", ReplayRule::Never, Place::Client),
            ]
        );
        let input = json!({ "order": "A1", "amount_cents": 500 });
        let triage = catalog.triage(
            "refund_order",
            &CallInput::Json(input),
            &ToolFilter::default(),
        );
        assert_eq!(
            triage.gate,
            Gate::Approval {
                expires_in_ms: None
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_gets_the_same_answer() {
        let questions = [
            ("get_weather", json!({ "city": "Rome" })),
            ("write_report", json!({ "topic": "rain", "seconds": 3 })),
            ("create_note", json!({ "text": "buy milk" })),
            (
                "refund_order",
                json!({ "order": "A1", "amount_cents": 500, "seconds": 2 }),
            ),
        ];
        for (tool, input) in questions {
            let first = run(tool, input.clone()).await;
            let CallOutcome::Done(_) = &first else {
                panic!("{tool} gave {first:?}");
            };
            assert_eq!(run(tool, input).await, first, "{tool}");
        }
    }

    #[tokio::test]
    async fn the_weather_is_told() {
        let expected = json!({
            "city": "Rome", "sky": "rainy", "temperature_celsius": 11, "demo": true,
        });
        let outcome = run("get_weather", json!({ "city": "Rome" })).await;
        assert_eq!(
            outcome,
            CallOutcome::Done(ToolOutput::from(expected).into())
        );
    }
}
