use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use steadfast_core::content::{CallInput, CallOutput, Stored, ToolOutput};
use steadfast_core::input::{
    CallOutcome, CallTriage, CheckAnswer, Gate, InDoubtPolicy, Place, ReplayRule, RuleToday,
};
use steadfast_core::limits::DETAIL_BYTES_MAX;

use super::*;
use crate::definition::ToolDefinition;
use crate::function::dynamic_function;
use crate::spec::{Approval, ToolKind};
use crate::testing::{io, job, job_within};

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "amount": { "type": "integer", "minimum": 1 } },
        "required": ["amount"],
        "additionalProperties": false,
    })
}

/// A tool that gives its input back.
fn echo(name: &str) -> ToolDefinition {
    dynamic_function(
        name,
        "Says it again",
        input_schema(),
        |input, _call| async move { Ok(input) },
    )
}

fn one(tool: ToolDefinition) -> Arc<Tool> {
    let catalog = Catalog::builder().with(tool).build().unwrap();
    Arc::clone(catalog.tools().next().unwrap())
}

async fn output_of(tool: ToolDefinition, input: Value) -> CallOutput {
    let worker = one(tool).worker.clone().unwrap();
    match worker.run(job(input), io()).await {
        CallOutcome::Done(output) => output,
        other => panic!("gave {other:?}"),
    }
}

fn gate(catalog: &Catalog, tool: &str, input: &str, filter: &ToolFilter) -> Gate {
    let input = match serde_json::from_str(input) {
        Ok(value) => CallInput::Json(value),
        Err(error) => CallInput::Malformed {
            text: input.to_owned(),
            error: error.to_string(),
        },
    };
    catalog.triage(tool, &input, filter).gate
}

fn error_gate(text: &str) -> Gate {
    Gate::Refused {
        output: ToolOutput::error(text),
    }
}

fn denied_gate(reason: &str) -> Gate {
    Gate::Refused {
        output: ToolOutput::ExecutionDenied {
            reason: Some(reason.to_owned()),
        },
    }
}

/// Tools under each approval, and a filter without `pay`.
fn guarded() -> (Catalog, ToolFilter) {
    let ask = echo("ask")
        .approval(Approval::UserApproval)
        .approval_expires(Duration::from_secs(60));
    let catalog = Catalog::builder()
        .with(echo("pay"))
        .with(ask)
        .with(echo("off").approval(Approval::Denied))
        .with(echo("agreed").approval(Approval::Approved))
        .build();
    (
        catalog.unwrap(),
        ToolFilter::new(None, Some(&["pay".to_owned()])),
    )
}

#[test]
fn a_call_runs_is_asked_about_or_denied_as_its_tool_says() {
    let (catalog, without_pay) = guarded();
    let all = ToolFilter::default();
    let cases = [
        ("pay", &all, Gate::Open),
        ("agreed", &all, Gate::Open),
        (
            "ask",
            &all,
            Gate::Approval {
                expires_in_ms: Some(60_000),
            },
        ),
        (
            "off",
            &all,
            denied_gate("this call is not allowed by policy"),
        ),
        ("pay", &without_pay, denied_gate("this tool is not active")),
    ];
    for (tool, filter, expected) in cases {
        assert_eq!(
            gate(&catalog, tool, r#"{ "amount": 5 }"#, filter),
            expected,
            "{tool}"
        );
    }
}

#[test]
fn a_call_that_cannot_run_is_refused_with_words_for_the_model() {
    let (catalog, without_pay) = guarded();
    let cases = [
        (
            "nope",
            r#"{ "amount": 5 }"#,
            "there is no tool named \"nope\", nothing was done; the tools are: ask, off, agreed",
        ),
        (
            "ask",
            "{ amount",
            "the arguments are not JSON, nothing was done: key must be a string at line 1 column 3",
        ),
        (
            "ask",
            "{}",
            "invalid arguments, nothing was done: at the top level: \"amount\" is a required property",
        ),
        (
            "off",
            r#"{ "amount": 0 }"#,
            "invalid arguments, nothing was done: at /amount: value is less than the minimum of 1",
        ),
    ];
    for (tool, input, words) in cases {
        assert_eq!(
            gate(&catalog, tool, input, &without_pay),
            error_gate(words),
            "{tool} {input}"
        );
    }
}

#[test]
fn a_triage_carries_what_the_specification_says() {
    let tool = echo("pay")
        .check(|_: Value, _call| async { CheckAnswer::Unknown })
        .in_doubt(InDoubtPolicy::Wait)
        .deadline(Duration::from_secs(30))
        .exclusive();
    let catalog = Catalog::builder()
        .with(tool)
        .with(echo("read").safe())
        .build()
        .unwrap();
    let input = CallInput::Json(json!({ "amount": 5 }));
    let pay = CallTriage {
        gate: Gate::Open,
        rule: ReplayRule::Never,
        place: Place::Local,
        in_doubt: InDoubtPolicy::Wait,
        has_check: true,
        exclusive: true,
        deadline_ms: 30_000,
        attempts_max: 1,
        slot: false,
    };
    let read = CallTriage {
        rule: ReplayRule::Safe,
        in_doubt: InDoubtPolicy::TellModel,
        has_check: false,
        exclusive: false,
        deadline_ms: 600_000,
        attempts_max: 5,
        ..pay.clone()
    };
    let all = ToolFilter::default();
    assert_eq!(catalog.triage("pay", &input, &all), pay);
    assert_eq!(catalog.triage("read", &input, &all), read);
    assert_eq!(
        catalog.rule_today("pay"),
        Some(RuleToday {
            rule: ReplayRule::Never,
            has_check: true,
        })
    );
    assert_eq!(catalog.rule_today("gone"), None);
}

#[test]
fn a_policy_over_the_input_takes_the_place_of_the_fixed_approval() {
    let tool =
        echo("pay")
            .approval(Approval::Denied)
            .approval_policy(|input| match input["amount"].as_u64() {
                Some(..100) => Approval::NotApplicable,
                Some(100..1_000) => Approval::UserApproval,
                Some(1_000_000..) => panic!("nobody thought of this much"),
                _ => Approval::Denied,
            });
    let catalog = Catalog::builder().with(tool).build().unwrap();
    let all = ToolFilter::default();
    let denied = denied_gate("this call is not allowed by policy");
    let ask = Gate::Approval {
        expires_in_ms: None,
    };
    for (amount, asked, agreed) in [
        (50, Gate::Open, Gate::Open),
        (500, ask, Gate::Open),
        (5_000, denied.clone(), denied.clone()),
        (5_000_000, denied.clone(), denied),
    ] {
        let input = CallInput::Json(json!({ "amount": amount }));
        assert_eq!(catalog.triage("pay", &input, &all).gate, asked, "{amount}");
        assert_eq!(
            catalog.triage_agreed("pay", &input, &all).gate,
            agreed,
            "{amount}"
        );
    }
}

#[test]
fn an_agreed_call_is_still_refused_when_its_tool_went_away() {
    let catalog = Catalog::builder()
        .with(echo("ask").approval(Approval::UserApproval))
        .build()
        .unwrap();
    let input = CallInput::Json(json!({ "amount": 5 }));
    let none = ToolFilter::new(Some(&[]), None);
    assert_eq!(
        catalog.triage_agreed("ask", &input, &none).gate,
        denied_gate("this tool is not active")
    );
    assert_eq!(
        catalog.triage_agreed("gone", &input, &none).gate,
        error_gate("there is no tool named \"gone\", nothing was done; the tools are: ")
    );
}

#[test]
fn a_client_side_tool_has_no_worker_and_is_checked_like_any_other() {
    let tool = ToolDefinition::client_side("where", "Asks the browser", input_schema());
    let catalog = Catalog::builder().with(tool).build().unwrap();
    assert!(catalog.get("where").unwrap().worker.is_none());
    let all = ToolFilter::default();
    let triage = catalog.triage("where", &CallInput::Json(json!({ "amount": 5 })), &all);
    assert_eq!((triage.gate, triage.place), (Gate::Open, Place::Client));
    let triage = catalog.triage("where", &CallInput::Json(json!({})), &all);
    assert!(matches!(triage.gate, Gate::Refused { .. }));
}

fn with_spec(change: fn(&mut ToolSpec)) -> ToolDefinition {
    let mut spec = ToolSpec::new("pay", "Pays", input_schema());
    change(&mut spec);
    let worker = one(echo("inner")).worker.clone().unwrap();
    ToolDefinition::with_worker(spec, worker)
}

fn client() -> ToolDefinition {
    ToolDefinition::client_side("where", "Asks", input_schema())
}

async fn no_answer(_: Value, _: crate::function::ToolCall) -> CheckAnswer {
    CheckAnswer::Unknown
}

fn assert_refused<const N: usize>(cases: [(ToolDefinition, &str); N]) {
    for (tool, words) in cases {
        let error = Catalog::builder()
            .with(tool)
            .build()
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    }
}

#[test]
fn bad_names_and_schemas_are_refused_at_start_up() {
    let no_input = json!({ "type": 1 });
    assert_refused([
        (echo(""), "\"\" is not a tool name"),
        (echo("a.b"), "\"a.b\" is not a tool name"),
        (echo(&"a".repeat(65)), "is not a tool name"),
        (
            echo("pay").output_schema(no_input),
            "the output schema of tool \"pay\"",
        ),
        (
            with_spec(|spec| spec.input_schema = json!({ "type": 1 })),
            "the input schema of tool \"pay\"",
        ),
        (
            with_spec(|spec| spec.input_schema = json!({ "type": "string" })),
            "must say type \"object\"",
        ),
    ]);
    let clash = Catalog::builder()
        .with(echo("pay"))
        .with(echo("pay"))
        .build();
    assert_eq!(
        clash.err(),
        Some(CatalogError::Clash {
            tool: "pay".to_owned()
        })
    );
}

#[test]
fn what_does_not_go_together_is_refused_at_start_up() {
    assert_refused([
        (
            echo("pay").safe().check(no_answer),
            "a check is only asked of",
        ),
        (
            echo("pay").keyed().check(no_answer),
            "a check is only asked of",
        ),
        (
            echo("pay").safe().in_doubt(InDoubtPolicy::Wait),
            "only a call with the rule never",
        ),
        (echo("pay").attempts_max(2), "has one attempt"),
        (
            echo("pay").safe().attempts_max(0),
            "attempts_max must be at least 1",
        ),
        (
            echo("pay").concurrency_max(0),
            "concurrency_max must be at least 1",
        ),
        (
            echo("pay").deadline(Duration::ZERO),
            "the deadline must be at least 1 ms",
        ),
        (
            echo("pay").approval_expires(Duration::ZERO),
            "more than no time",
        ),
        (
            with_spec(|spec| spec.place = Place::Client),
            "a client-side tool has the kind",
        ),
        (
            with_spec(|spec| spec.kind = ToolKind::ClientSide),
            "a client-side tool has the kind",
        ),
        (
            with_spec(|spec| spec.place = Place::Remote),
            "its place is local",
        ),
        (
            with_spec(|spec| spec.kind = ToolKind::ProviderExecuted),
            "tools of a model provider",
        ),
        (client().exclusive(), "cannot be exclusive"),
        (client().check(no_answer), "cannot be checked"),
    ]);
}

#[test]
fn a_filter_is_refused_at_the_door_and_lenient_later() {
    let catalog = Catalog::builder()
        .with(echo("a"))
        .with(echo("b"))
        .build()
        .unwrap();
    let (a, gone) = (
        vec!["a".to_owned()],
        vec!["a".to_owned(), "gone".to_owned()],
    );
    let unknown = Err(FilterError::UnknownTool {
        name: "gone".to_owned(),
    });
    assert_eq!(
        catalog.admit_filter(Some(&a), Some(&a)),
        Err(FilterError::Both)
    );
    assert_eq!(catalog.admit_filter(Some(&gone), None), unknown);
    assert_eq!(catalog.admit_filter(None, Some(&gone)), unknown);
    let filter = catalog.admit_filter(Some(&a), None).unwrap();
    let shown: Vec<_> = catalog
        .listing(&filter)
        .into_iter()
        .map(|listing| (listing.spec.name, listing.active))
        .collect();
    assert_eq!(shown, [("a".to_owned(), true), ("b".to_owned(), false)]);
    let old = ToolFilter::new(Some(&gone), None);
    let offered: Vec<_> = catalog
        .offered(&old)
        .map(|tool| tool.spec.name.clone())
        .collect();
    assert_eq!(offered, ["a"]);
}

#[tokio::test]
async fn a_result_that_does_not_fit_is_an_error_of_a_safe_tool_and_a_note_of_others() {
    let schema = json!({ "type": "object", "properties": { "amount": { "maximum": 3 } } });
    let misfit = "the result does not fit the tool's output schema: \
                  at /amount: value is greater than the maximum of 3";
    let echo = || echo("pay").output_schema(schema.clone());
    let input = json!({ "amount": 5 });
    let kept = CallOutput {
        output: Stored::Inline(ToolOutput::from(input.clone())),
        model_view: None,
        note: Some(misfit.to_owned()),
    };
    assert_eq!(
        output_of(echo().safe(), input.clone()).await,
        ToolOutput::error(misfit).into()
    );
    assert_eq!(output_of(echo().keyed(), input.clone()).await, kept);
    assert_eq!(output_of(echo(), input).await, kept);
    let fitting = json!({ "amount": 2 });
    assert_eq!(
        output_of(echo().safe(), fitting.clone()).await,
        ToolOutput::from(fitting).into()
    );
}

#[tokio::test]
async fn the_model_sees_the_mapped_result_and_errors_as_they_are() {
    static MAPPED: AtomicU32 = AtomicU32::new(0);
    let tool = echo("pay").to_model_output(|output| match output {
        ToolOutput::Json { value } if value["amount"] == 13 => panic!("unlucky"),
        other => {
            MAPPED.fetch_add(1, Ordering::Relaxed);
            ToolOutput::text(format!("{other:?}").len().to_string())
        }
    });
    let input = json!({ "amount": 5 });
    let length = format!("{:?}", ToolOutput::from(input.clone())).len();
    let expected = CallOutput {
        output: Stored::Inline(ToolOutput::from(input.clone())),
        model_view: Some(Box::new(ToolOutput::text(length.to_string()))),
        note: None,
    };
    assert_eq!(output_of(tool.clone(), input).await, expected);
    let unlucky = json!({ "amount": 13 });
    assert_eq!(
        output_of(tool, unlucky.clone()).await,
        ToolOutput::from(unlucky).into()
    );
    let failing = dynamic_function("fail", "Fails", input_schema(), |_, _| async {
        Err::<Value, _>(crate::function::ToolFailure::told("no"))
    });
    let failing = failing.to_model_output(|_| {
        MAPPED.fetch_add(100, Ordering::Relaxed);
        ToolOutput::text("mapped")
    });
    assert_eq!(
        output_of(failing, json!({})).await,
        ToolOutput::error("no").into()
    );
    assert_eq!(MAPPED.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_check_answers_within_its_time_and_its_result_is_finished_too() {
    let tool = echo("pay")
        .output_schema(json!({ "type": "object" }))
        .check(|input: Value, call| async move {
            match input["amount"].as_u64() {
                Some(1) => CheckAnswer::Done(ToolOutput::text(call.key()).into()),
                Some(2) => CheckAnswer::NotDone,
                _ => std::future::pending().await,
            }
        });
    let worker = one(tool).worker.clone().unwrap();
    let done = CheckAnswer::Done(CallOutput {
        output: Stored::Inline(ToolOutput::text(crate::testing::KEY)),
        model_view: None,
        note: Some(
            "the result does not fit the tool's output schema: \
             at the top level: value is not of type \"object\""
                .to_owned(),
        ),
    });
    assert_eq!(worker.check(job(json!({ "amount": 1 }))).await, done);
    assert_eq!(
        worker.check(job(json!({ "amount": 2 }))).await,
        CheckAnswer::NotDone
    );
    assert_eq!(
        worker.check(job_within(json!({ "amount": 3 }), 20)).await,
        CheckAnswer::Unknown
    );
}

proptest! {
    #[test]
    fn every_triage_ends_in_a_bounded_answer(name in ".{0,300}", text in ".{0,300}", amount in any::<i64>()) {
        let catalog = Catalog::builder().with(echo("pay")).build().unwrap();
        let all = ToolFilter::default();
        let inputs = [
            CallInput::Malformed { text: text.clone(), error: text.clone() },
            CallInput::Json(json!({ text.clone(): text })),
            CallInput::Json(json!({ "amount": amount })),
        ];
        for (tool, input) in inputs.iter().flat_map(|input| [("pay", input), (name.as_str(), input)]) {
            match catalog.triage(tool, input, &all).gate {
                Gate::Open => prop_assert!(tool == "pay" && amount >= 1),
                Gate::Refused { output: ToolOutput::ErrorText { text } } => {
                    prop_assert!(!text.is_empty() && text.len() <= DETAIL_BYTES_MAX);
                }
                other => prop_assert!(false, "gave {other:?}"),
            }
        }
    }
}
