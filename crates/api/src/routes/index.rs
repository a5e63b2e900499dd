//! `GET /`

use std::fmt::Write;

use axum::response::Html;

use crate::input::query::Asked;
use crate::openapi;

/// Names the routes, for people.
#[utoipa::path(
    get,
    path = "/",
    tag = "node",
    security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(crate) async fn index(_: Asked) -> Html<String> {
    let document = openapi::document();
    let mut rows = String::new();
    for (path, item) in &document.paths.paths {
        let operations = [
            ("GET", &item.get),
            ("PUT", &item.put),
            ("POST", &item.post),
            ("DELETE", &item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let summary = operation.summary.as_deref().unwrap_or_default();
            // Writing to a string cannot fail. The texts are ours and hold no markup.
            let _ = writeln!(rows, "<tr><td>{method}<td>{path}<td>{summary}");
        }
    }
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Steadfast</title>\
         <style>body{{font:15px/1.5 system-ui;margin:2rem}}td{{padding:0 1rem 0 0}}\
         td:nth-child(2){{font-family:monospace}}</style>\
         <h1>Steadfast</h1><p><a href=/openapi.json>openapi.json</a><table>\n{rows}</table></html>\n"
    ))
}
