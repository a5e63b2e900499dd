//! `GET /metrics`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::app::Api;
use crate::error::ProblemBody;
use crate::input::query::Asked;
use crate::metrics::MetricsText;

/// Counters of the node, in the text format of Prometheus.
///
/// With API keys it needs one with the scope `metrics`.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "node",
    responses(
        (status = 200, description = "The counters", body = String, content_type = "text/plain"),
        (status = "4XX", description = "`unauthorized`, `scope_missing`", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn metrics(State(api): State<Api>, _: Asked) -> Response {
    let mut text = MetricsText::default();
    api.metrics().write(&mut text);
    let open = api.streams().count() as f64;
    text.single("steadfast_streams_open", "gauge", "Streams open now", open);
    let followed = api.hubs().count() as f64;
    text.single(
        "steadfast_sessions_followed",
        "gauge",
        "Sessions followed now",
        followed,
    );
    for source in api.more_metrics() {
        source(&mut text);
    }
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (headers, text.into_text()).into_response()
}
