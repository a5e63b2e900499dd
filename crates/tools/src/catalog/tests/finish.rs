use super::*;

async fn output_of(tool: ToolDefinition, input: Value) -> CallOutput {
    let worker = one(tool).worker.clone().unwrap();
    match worker.run(job(input), io()).await {
        CallOutcome::Done(output) => output,
        other => panic!("gave {other:?}"),
    }
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
