//! The description of the surface, made from the routes themselves.
//!
//! The checked-in copy is `crates/api/openapi.json`; a test compares it. To write it anew, run
//! `STEADFAST_WRITE_OPENAPI=1 cargo test -p steadfast-api openapi`.

use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Api;
use crate::routes as r;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Steadfast",
        description = "Durable sessions of AI agents. Errors are problem documents (RFC 9457) with a stable `code`. Times are milliseconds since the Unix epoch.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Keys),
    security(("key" = [])),
    tags(
        (name = "sessions", description = "Sessions and their logs"),
        (name = "messages", description = "Messages, where they stand, and what follows"),
        (name = "turns", description = "Cancelling, approving, giving results"),
        (name = "chat", description = "The routes of `useChat` of the AI SDK"),
        (name = "agents", description = "What is configured"),
        (name = "node", description = "The node itself"),
    ),
)]
struct Description;

struct Keys;

impl Modify for Keys {
    fn modify(&self, openapi: &mut OpenApi) {
        let http = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key. Without configured keys none is needed."));
        let scheme = SecurityScheme::Http(http.build());
        openapi
            .components
            .get_or_insert_default()
            .add_security_scheme("key", scheme);
    }
}

/// All routes with their descriptions.
pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(r::agents::list))
        .routes(routes!(r::agents::get))
        .routes(routes!(r::all_sessions::list, r::all_sessions::create))
        .routes(routes!(
            r::one_session::put,
            r::one_session::get,
            r::one_session::delete
        ))
        .routes(routes!(r::submit::submit, r::messages::list))
        .routes(routes!(r::receipts::get, r::receipts::withdraw))
        .routes(routes!(r::cancel::cancel))
        .routes(routes!(r::compact::compact))
        .routes(routes!(r::fork::fork))
        .routes(routes!(r::repair::repair, r::damage::damage))
        .routes(routes!(r::approvals::list))
        .routes(routes!(r::approvals::decide))
        .routes(routes!(r::calls::result))
        .routes(routes!(r::events::events))
        .routes(routes!(r::chat::post))
        .routes(routes!(r::chat_history::get))
        .routes(routes!(r::chat_resume::get))
        .routes(routes!(r::chat_stop::post))
        .routes(routes!(r::log::log))
        .routes(routes!(r::why::why))
        .routes(routes!(r::blobs::get))
        .merge(health_router())
        .routes(routes!(r::openapi::document))
        .routes(routes!(r::index::index))
}

/// The routes that every node has.
pub(crate) fn health_router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(r::health::healthz))
        .routes(routes!(r::health::readyz))
        .routes(routes!(r::metrics::metrics))
}

/// The description of all routes.
pub fn document() -> OpenApi {
    router().into_openapi()
}

/// The description as it is served and checked in.
pub(crate) fn text() -> Result<String, serde_json::Error> {
    document().to_pretty_json().map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_file_says_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let text = text().unwrap();
        if std::env::var_os("STEADFAST_WRITE_OPENAPI").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == text,
            "crates/api/openapi.json is not what the code says; write it anew with \
             STEADFAST_WRITE_OPENAPI=1 cargo test -p steadfast-api openapi"
        );
    }
}
