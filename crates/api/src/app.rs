//! The surface as one service: its state, its layers, its routes.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use steadfast_runtime::sessions::Sessions;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{self, Auth, Peer, Scope};
use crate::backend::Backend;
use crate::error::{ErrorCode, Problem};
use crate::guard;
use crate::metrics::{Metrics, MetricsSource};
use crate::openapi;
use crate::options::{Options, Surface};
use crate::stream::hub::Hubs;
use crate::stream::permit::Streams;

/// What all routes share.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    backend: Backend,
    options: Options,
    metrics: Arc<Metrics>,
    more_metrics: Vec<MetricsSource>,
    hubs: Arc<Hubs>,
    streams: Arc<Streams>,
    shutdown: CancellationToken,
}

impl Api {
    /// A surface over these sessions. Once `shutdown` is cancelled, streams end and the node says
    /// that it is not ready.
    pub fn new(
        sessions: Sessions,
        options: Options,
        more_metrics: Vec<MetricsSource>,
        shutdown: CancellationToken,
    ) -> Self {
        let metrics = Arc::new(Metrics::default());
        let backend = Backend::new(sessions, options.limits.request_ms, Arc::clone(&metrics));
        Self(Arc::new(Shared {
            backend,
            options,
            metrics,
            more_metrics,
            hubs: Arc::default(),
            streams: Arc::default(),
            shutdown,
        }))
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn more_metrics(&self) -> &[MetricsSource] {
        &self.0.more_metrics
    }

    pub(crate) fn hubs(&self) -> &Arc<Hubs> {
        &self.0.hubs
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.0.streams
    }

    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }
}

/// Why there is no such route.
const WHOLE: &str = "there is no such route; `/openapi.json` describes them all";
const HEALTH_ONLY: &str =
    "this node has not the role `api`: it serves `/healthz`, `/readyz` and `/metrics` only";

/// The whole surface, or as much of it as the node serves. Whoever serves it puts a [`Peer`] into each request's extensions.
pub fn app(api: Api) -> Router {
    let (routes, elsewhere) = match api.options().surface {
        Surface::Whole => (openapi::router(), WHOLE),
        Surface::Health => (openapi::health_router(), HEALTH_ONLY),
    };
    let (router, _) = routes.split_for_parts();
    let panics = Arc::clone(&api.0.metrics);
    router
        .fallback(async move || Problem::new(ErrorCode::PathNotFound, elsewhere))
        .method_not_allowed_fallback(no_such_method)
        .with_state(api.clone())
        .layer(CatchPanicLayer::custom(
            move |panic: Box<dyn Any + Send>| panicked(&panics, panic.as_ref()),
        ))
        .layer(from_fn_with_state(api, around))
}

/// What happens around every request: who asks, and what is counted.
async fn around(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let mut response = match admit(&api, route, &mut request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let (status, took) = (response.status().as_u16(), began.elapsed());
    // Methods are free text for a client; labels are not.
    let known = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::POST,
        Method::DELETE,
        Method::OPTIONS,
        Method::PATCH,
    ];
    let label = if known.contains(&method) {
        method.as_str()
    } else {
        "other"
    };
    api.metrics().request(route, label, status, took);
    tracing::debug!(
        method = label,
        route,
        status,
        took_ms = took.as_millis(),
        "request"
    );
    response
}

/// Lets a request in, or says why not.
fn admit(api: &Api, route: &str, request: &mut Request) -> Result<(), Problem> {
    if matches!(route, "/healthz" | "/readyz") {
        return Ok(());
    }
    let options = api.options();
    if matches!(options.auth, Auth::Loopback) {
        guard::check(options, request.uri(), request.headers())?;
    }
    let public = matches!(route, "/" | "/openapi.json");
    if public && matches!(options.auth, Auth::Keys(_)) {
        return Ok(());
    }
    let peer = request.extensions().get::<Peer>().copied();
    let caller = auth::identify(&options.auth, request.headers(), peer)?;
    caller.require(match route {
        "/metrics" => Scope::Metrics,
        _ => auth::scope_of(request.method()),
    })?;
    request.extensions_mut().insert(caller);
    Ok(())
}

async fn no_such_method(method: Method) -> Problem {
    let shown: String = method.as_str().chars().take(32).collect();
    Problem::new(
        ErrorCode::MethodNotAllowed,
        format!("the route does not know {shown}; the header `Allow` says what it knows"),
    )
}

fn panicked(metrics: &Metrics, panic: &(dyn Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(message, "a handler panicked");
    metrics.panicked();
    Problem::new(
        ErrorCode::Internal,
        "the server made a mistake; see the node's log",
    )
    .into_response()
}
