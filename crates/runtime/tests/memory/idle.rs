//! One turn, and then nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dhat::{HeapStats, Profiler};
use serde_json::Value;
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession, ToolChoice};
use steadfast_core::content::{ContentPart, Stored};
use steadfast_core::id::{
    AgentName, CommandId, NodeId, SessionId, SessionKey, TenantId, Timestamp,
};
use steadfast_core::input::Policy;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_runtime::agent::{Agent, Agents, Drive, LoopControl};
use steadfast_runtime::{Options, Runtime};
use steadfast_store::clock::TokioClock;
use steadfast_store::memory;
use steadfast_tools::catalog::Catalog;
use steadfast_tools::demo;
use steadfast_tools::filter::ToolFilter;

/// One call of a tool, then the answer.
const SCRIPT: &str = r#"SCRIPT: [{"tool":"get_weather","input":{"city":"Paris"}},{"text":"done"}]"#;

/// A session with one turn. What an allocator rounds up, and what it keeps for later, comes on top.
const IDLE_SESSION_BYTES_MAX: usize = 7 * 1024;

#[tokio::test(start_paused = true)]
async fn an_idle_session_takes_little_memory() {
    let _profiler = Profiler::builder().testing().build();
    let (few, many) = (held_by(50).await, held_by(150).await);
    let bytes = (many - few) / 100;
    assert!(bytes <= IDLE_SESSION_BYTES_MAX, "{bytes} bytes");
    // Without the sessions there would be nothing to count.
    assert!(bytes > 1024, "{bytes} bytes");
}

/// Bytes that go when a process with so many idle sessions crashes; its store stays.
async fn held_by(count: usize) -> usize {
    let clock = Arc::new(TokioClock::starting_at(Timestamp(1_800_000_000_000)));
    let options = Options {
        idle_after: Duration::from_secs(3_600),
        ..Options::default()
    };
    let stores = memory::stores(Arc::clone(&clock) as _);
    let node = NodeId::new("n").unwrap();
    let started = Runtime::start(options, stores.clone(), agents(), clock, node);
    let (sessions, handle) = started.await.unwrap();
    for number in 0..count {
        let (key, command) = message(number);
        let message = command.id.clone();
        sessions.admit(&key, command).await.unwrap();
        sessions.message_over(&key, &message).await.unwrap();
    }
    // Until lists show what happened.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(sessions.in_memory(), count);
    let idle = HeapStats::get().curr_bytes;
    drop(handle);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sessions.in_memory(), 0);
    idle - HeapStats::get().curr_bytes
}

fn message(number: usize) -> (SessionKey, Command) {
    let key = SessionKey {
        tenant: TenantId::new("default").unwrap(),
        session: SessionId::new(format!("s{number}")).unwrap(),
    };
    let text = SCRIPT.into();
    let new = NewSession {
        agent: AgentName::new("helper").unwrap(),
        metadata: Value::Null,
        tags: Vec::new(),
    };
    let command = Command {
        id: CommandId::new("m").unwrap(),
        body: CommandBody::Submit {
            content: vec![Stored::Inline(ContentPart::Text { text })],
            options: MessageOptions::default(),
            new: Some(new),
        },
    };
    (key, command)
}

fn agents() -> Agents {
    let name = AgentName::new("helper").unwrap();
    let catalog = Catalog::builder().with_all(demo::tools()).build().unwrap();
    let agent = Agent {
        name: name.clone(),
        model: "scripted/scripted".into(),
        provider_name: "scripted".into(),
        provider: Arc::new(ScriptedProvider::new()),
        settings: ModelSettings {
            model: "scripted".into(),
            instructions: "You help.".into(),
            tools: Arc::default(),
            output_tokens_max: None,
            options: Value::Null,
            tool_choice: ToolChoice::Auto,
            output_schema: None,
        },
        policy: Policy::default(),
        catalog: Arc::new(catalog),
        filter: ToolFilter::default(),
        control: LoopControl::default(),
        drive: Drive::Request,
    };
    Arc::new(BTreeMap::from([(name, Arc::new(agent.offering()))]))
}
