//! A node without sockets.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steadfast_api::{Api, Auth, Options, Peer, app};
use steadfast_core::command::ToolChoice;
use steadfast_core::id::{AgentName, NodeId};
use steadfast_core::input::{InDoubtPolicy, Policy};
use steadfast_harness::native::ModelSettings;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_runtime::agent::{Agent, LoopControl};
use steadfast_runtime::{Options as RuntimeOptions, Runtime, RuntimeHandle};
use steadfast_store::clock::SystemClock;
use steadfast_store::clock::SystemClock as StoreClock;
use steadfast_store::{Stores, memory};
use steadfast_tools::catalog::Catalog;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::filter::ToolFilter;
use steadfast_tools::function::{ToolFailure, dynamic_function};
use steadfast_tools::spec::Approval;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One node.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) shutdown: CancellationToken,
    pub(crate) stores: Stores,
    _runtime: RuntimeHandle,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

fn tool(name: &str) -> ToolDefinition {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    dynamic_function(name, "A tool", schema, |input: Value, _| async move {
        let city = input["city"].as_str().unwrap_or("nowhere");
        Ok(format!("it is sunny in {city}"))
    })
}

fn catalog() -> Catalog {
    let schema = json!({"type": "object"});
    let lost = dynamic_function("lost", "Never answers", schema.clone(), |_, _| async {
        Err::<String, _>(ToolFailure::unknown("the answer was lost"))
    });
    Catalog::builder()
        .with(tool("get_weather").safe())
        .with(tool("refund").safe().approval(Approval::UserApproval))
        .with(lost.in_doubt(InDoubtPolicy::Wait))
        .with(ToolDefinition::client_side("ask", "Asks the user", schema))
        .build()
        .unwrap()
}

fn agent(name: &str, policy: Policy) -> (AgentName, Arc<Agent>) {
    let name = AgentName::new(name).unwrap();
    let agent = Agent {
        name: name.clone(),
        model: "scripted/demo".into(),
        provider_name: "scripted".into(),
        provider: Arc::new(ScriptedProvider::new()),
        settings: ModelSettings {
            model: "demo".into(),
            instructions: "You help.".into(),
            tools: Arc::default(),
            output_tokens_max: None,
            options: Value::Null,
            tool_choice: ToolChoice::Auto,
            output_schema: None,
        },
        policy,
        catalog: Arc::new(catalog()),
        filter: ToolFilter::default(),
        control: LoopControl::default(),
        drive: steadfast_runtime::agent::Drive::Request,
    };
    (name, Arc::new(agent.offering()))
}

impl World {
    /// A node without keys.
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// A node whose surface behaves so.
    pub(crate) async fn with(options: Options) -> Self {
        Self::with_runtime(options, RuntimeOptions::default()).await
    }

    /// A node whose surface and runtime behave so.
    pub(crate) async fn with_runtime(options: Options, runtime: RuntimeOptions) -> Self {
        let short = Policy {
            queue_max: 2,
            ..Policy::default()
        };
        let agents = [agent("demo", Policy::default()), agent("short", short)];
        let stores = memory::stores(Arc::new(StoreClock));
        let (sessions, runtime) = Runtime::start(
            runtime,
            stores.clone(),
            Arc::new(agents.into()),
            Arc::new(SystemClock),
            NodeId::new("n1").unwrap(),
        )
        .await
        .unwrap();
        let shutdown = CancellationToken::new();
        let api = Api::new(sessions, options, Vec::new(), shutdown.clone());
        Self {
            router: app(api),
            shutdown,
            stores,
            _runtime: runtime,
        }
    }

    /// Sends a request from this machine.
    pub(crate) async fn raw(&self, mut request: Request<Body>) -> axum::response::Response {
        let peer = Peer("127.0.0.1:9".parse().unwrap());
        request.extensions_mut().insert(peer);
        let headers = request.headers_mut();
        if !headers.contains_key(header::HOST) {
            headers.insert(header::HOST, "localhost:7070".parse().unwrap());
        }
        let answer = self.router.clone().oneshot(request);
        let answer = tokio::time::timeout(PATIENCE, answer);
        answer.await.expect("no answer came").unwrap()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.raw(request).await.into_parts();
        let bytes = tokio::time::timeout(PATIENCE, body.collect());
        let bytes = bytes.await.expect("the answer did not end").unwrap();
        let bytes = bytes.to_bytes();
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(text())),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, None)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(request(Method::DELETE, path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(request(Method::POST, path, Some(body))).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(request(Method::PUT, path, Some(body))).await
    }

    /// Makes a session of the demo agent.
    pub(crate) async fn session(&self, id: &str) {
        let answer = self
            .put(&format!("/v1/sessions/{id}"), json!({"agent": "demo"}))
            .await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    }

    /// Sends a message that follows a script, and waits for its end.
    pub(crate) async fn say(&self, session: &str, id: &str, script: Value) -> Answer {
        let content = format!("SCRIPT:{script}");
        let path = format!("/v1/sessions/{session}/messages?wait=30s");
        self.post(&path, json!({"id": id, "content": content}))
            .await
    }

    /// Sends a message that follows a script, and does not wait.
    pub(crate) async fn begin(&self, session: &str, id: &str, script: Value) -> Answer {
        let content = format!("SCRIPT:{script}");
        let path = format!("/v1/sessions/{session}/messages");
        self.post(&path, json!({"id": id, "content": content}))
            .await
    }

    /// Follows a session's events.
    pub(crate) async fn follow(&self, session: &str, after: u64) -> Frames {
        let path = format!("/v1/sessions/{session}/events?after={after}");
        let answer = self.raw(request(Method::GET, &path, None)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        Frames {
            body: StreamExt::boxed(answer.into_body().into_data_stream()),
            text: String::new(),
        }
    }

    /// Waits until the session has an event of this type, from the start on; gives it.
    pub(crate) async fn event(&self, session: &str, name: &str) -> Value {
        let mut frames = self.follow(session, 0).await;
        frames.until(name).await.2
    }
}

/// A request with a JSON body.
pub(crate) fn request(method: Method, path: &str, body: Option<Value>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    match body {
        Some(body) => request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

/// Keys of two tenants.
pub(crate) fn keys(keys: &[(&str, &str, &[steadfast_api::Scope])]) -> Auth {
    let key =
        |(tenant, key, scopes): &(&str, &str, &[steadfast_api::Scope])| steadfast_api::ApiKey {
            tenant: steadfast_core::id::TenantId::new(*tenant).unwrap(),
            hash: blake3::hash(key.as_bytes()),
            scopes: scopes.iter().copied().collect(),
        };
    Auth::Keys(keys.iter().map(key).collect())
}

impl Answer {
    /// The stable code of a problem; checks that it is one.
    #[track_caller]
    pub(crate) fn code(&self) -> &str {
        let content_type = &self.headers[header::CONTENT_TYPE];
        assert_eq!(content_type, "application/problem+json", "{self:?}");
        let body = &self.body;
        assert_eq!(body["status"], self.status.as_u16());
        let code = body["code"].as_str().unwrap();
        assert_eq!(body["type"], format!("urn:steadfast:problem:{code}"));
        assert!(!body["detail"].as_str().unwrap().is_empty());
        code
    }

    /// The status and code of a problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, &str) {
        (self.status.as_u16(), self.code())
    }

    /// The body of a success with this status.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self.body
    }
}

/// A stream of events.
pub(crate) struct Frames {
    body: futures_util::stream::BoxStream<'static, Result<Bytes, axum::Error>>,
    text: String,
}

/// Id, type and data of a frame.
pub(crate) type Frame = (Option<u64>, String, Value);

impl Frames {
    /// The next frame that is no comment; `None`: the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    frame
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                let (id, event, data) = (field("id: "), field("event: "), field("data: "));
                self.text = rest.to_owned();
                if let (Some(event), Some(data)) = (event, data) {
                    let id = id.map(|id| id.parse().unwrap());
                    return Some((id, event, serde_json::from_str(&data).unwrap()));
                }
            }
            let more = tokio::time::timeout(PATIENCE, self.body.next());
            let more = more.await.expect("no frame came")?;
            self.text
                .push_str(std::str::from_utf8(&more.unwrap()).unwrap());
        }
    }

    /// The next frame of this type.
    pub(crate) async fn until(&mut self, name: &str) -> Frame {
        loop {
            let frame = self.next().await.expect("the stream ended");
            if frame.1 == name {
                return frame;
            }
        }
    }

    /// All frames until the stream ends.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}
