use super::*;

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
            with_spec(|spec| spec.kind = ToolKind::ProviderExecuted),
            "names the provider's type",
        ),
        (
            with_spec(|spec| {
                spec.kind = ToolKind::ProviderExecuted;
                spec.provider = Some(provider_type("anthropic.web_search_20250305"));
            }),
            "that the provider runs",
        ),
        (
            echo("bash").provider_defined(provider_type("bash")),
            "written PROVIDER.TYPE",
        ),
        (
            search().approval(Approval::UserApproval),
            "nobody can be asked",
        ),
        (client().exclusive(), "cannot be exclusive"),
        (client().check(no_answer), "cannot be checked"),
    ]);
}

fn provider_type(id: &str) -> ProviderType {
    ProviderType {
        id: id.to_owned(),
        options: json!({}),
    }
}

fn search() -> ToolDefinition {
    let provider = provider_type("anthropic.web_search_20250305");
    ToolDefinition::provider_executed("web_search", "Searches", provider)
}

#[test]
fn a_tool_that_the_provider_runs_is_offered_and_never_run_here() {
    let catalog = Catalog::builder().with(search()).build().unwrap();
    let all = ToolFilter::default();
    assert_eq!(catalog.offered(&all).len(), 1);
    let triage = catalog.triage("web_search", &CallInput::Json(json!({})), &all);
    let Gate::Refused { output } = triage.gate else {
        panic!("{triage:?}")
    };
    assert!(output.is_error(), "{output:?}");
}
