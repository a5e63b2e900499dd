mod build;
mod finish;

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
use crate::spec::{Approval, ProviderType, ToolKind};
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
    Arc::clone(&catalog.tools()[0])
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
        agent: None,
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
    let recorded = RuleToday {
        rule: ReplayRule::Safe,
        has_check: false,
    };
    assert_eq!(
        catalog.rule_today("pay", recorded),
        Some(RuleToday {
            rule: ReplayRule::Never,
            has_check: true,
        })
    );
    assert_eq!(catalog.rule_today("gone", recorded), None);
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
        .iter()
        .map(|tool| tool.spec.name.clone())
        .collect();
    assert_eq!(offered, ["a"]);
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
