//! Spans of a turn, and the trace context that tools are given, over crashes too.

use std::collections::{BTreeMap, HashMap};

use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use steadfast_core::command::{Command, CommandBody};
use steadfast_core::receipt::End;
use steadfast_core::trace::Traceparent;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::world::{World, calls, key, message, tool};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Everything that is exported on this thread.
struct Exported {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _subscriber: DefaultGuard,
}

impl Exported {
    fn begin() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let shown = Targets::new()
            .with_default(LevelFilter::INFO)
            .with_target("ractor", LevelFilter::OFF);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("test"))
            .with_filter(shown);
        let subscriber = tracing_subscriber::registry().with(layer);
        Self {
            exporter,
            _provider: provider,
            _subscriber: tracing::subscriber::set_default(subscriber),
        }
    }

    fn spans(&self) -> Vec<SpanData> {
        self.exporter.get_finished_spans().unwrap()
    }

    /// Each span with the names of those it stands in.
    fn paths(&self) -> Vec<String> {
        let spans = self.spans();
        let by_id: HashMap<_, _> = spans
            .iter()
            .map(|span| (span.span_context.span_id(), span))
            .collect();
        let path = |span: &SpanData| {
            let mut names = vec![span.name.to_string()];
            let mut parent = span.parent_span_id;
            while let Some(span) = by_id.get(&parent) {
                names.insert(0, span.name.to_string());
                parent = span.parent_span_id;
            }
            names.join(" / ")
        };
        let mut paths: Vec<String> = spans.iter().map(path).collect();
        paths.sort();
        paths
    }
}

fn traced(id: &str, text: &str) -> Command {
    let mut command = message(id, text);
    if let CommandBody::Submit { options, .. } = &mut command.body {
        options.traceparent = Some(CALLER.parse().unwrap());
    }
    command
}

fn world() -> World {
    World::with_tools(|builder, ledger| {
        let ledger = std::sync::Arc::clone(ledger);
        builder.with(tool("traced", move |_, call| {
            ledger.write(call.traceparent().unwrap_or("none"));
            async { Ok("traced".to_owned()) }
        }))
    })
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let attributes = span.attributes.iter();
    attributes
        .filter(|pair| pair.key.as_str().starts_with("gen_ai."))
        .map(|pair| (pair.key.to_string(), pair.value.to_string()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_one_tree_of_spans_under_its_callers() {
    let exported = Exported::begin();
    let world = world();
    let node = world.start().await;
    let command = traced("m1", &calls(&["traced"]));
    node.sessions.admit(&key("s"), command).await.unwrap();
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    node.until_gone().await;
    assert_eq!(
        exported.paths(),
        [
            "message",
            "message / invoke_agent helper",
            "message / invoke_agent helper / step",
            "message / invoke_agent helper / step",
            "message / invoke_agent helper / step / chat scripted",
            "message / invoke_agent helper / step / chat scripted",
            "message / invoke_agent helper / step / execute_tool traced",
        ]
    );
    let caller: Traceparent = CALLER.parse().unwrap();
    let spans = exported.spans();
    for span in &spans {
        assert_eq!(
            span.span_context.trace_id(),
            caller.trace.into(),
            "{}",
            span.name
        );
    }
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(named("message").parent_span_id, SpanId::from(caller.span));
    let call = named("execute_tool traced");
    let given = Traceparent {
        span: u64::from_be_bytes(call.span_context.span_id().to_bytes()),
        ..caller
    };
    assert_eq!(world.ledger.lines(), [given.to_string()]);
    let pairs = [
        ("gen_ai.conversation.id", "default/s"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "traced"),
        ("gen_ai.tool.type", "function"),
    ];
    let mut expected = BTreeMap::from(pairs.map(|(key, value)| (key.into(), value.to_owned())));
    let call_id = attributes(call)["gen_ai.tool.call.id"].clone();
    expected.insert("gen_ai.tool.call.id".into(), call_id);
    assert_eq!(attributes(call), expected);
    let chat = attributes(named("chat scripted"));
    for key in [
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.response.finish_reasons",
    ] {
        assert!(chat.contains_key(key), "{key} is missing: {chat:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_goes_on_in_the_same_trace() {
    let exported = Exported::begin();
    let world = world();
    let node = world.start().await;
    let steps = serde_json::json!([
        { "tool": "traced", "input": {} },
        { "tool": "hang", "input": {} },
        { "tool": "traced", "input": {} },
        { "text": "done" },
    ]);
    let command = message("m1", &crate::world::script(steps));
    node.sessions.admit(&key("s"), command).await.unwrap();
    world.ledger.hanging.notified().await;
    node.crash().await;
    let node = world.start().await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    node.until_gone().await;
    let traces: std::collections::BTreeSet<_> = exported
        .spans()
        .iter()
        .map(|span| span.span_context.trace_id().to_string())
        .collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let trace = traces.first().unwrap();
    let lines = world.ledger.lines();
    let given: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("00-"))
        .collect();
    assert_eq!(given.len(), 2, "{lines:?}");
    for context in given {
        assert!(context.contains(trace), "{context} is not of {trace}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_exporter_tools_are_given_the_callers_context() {
    let world = world();
    let node = world.start().await;
    let command = traced("m1", &calls(&["traced"]));
    node.sessions.admit(&key("s"), command).await.unwrap();
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    node.send(&key("s"), "m2", &calls(&["traced"])).await;
    assert_eq!(node.end_of(&key("s"), "m2").await, End::Completed);
    assert_eq!(world.ledger.lines(), [CALLER, "none"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_repeated_in_another_span_is_the_same_message() {
    let world = world();
    let node = world.start().await;
    let first = traced("m1", &calls(&["traced"]));
    node.sessions.admit(&key("s"), first).await.unwrap();
    let again = message("m1", &calls(&["traced"]));
    let admission = node.sessions.admit(&key("s"), again).await.unwrap();
    let steadfast_runtime::sessions::Admission::Decided { first, verdict, .. } = admission else {
        panic!("it was not decided")
    };
    assert!(!first, "{verdict:?}");
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), [CALLER]);
}
