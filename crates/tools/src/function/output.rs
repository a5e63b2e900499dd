//! Rust values as tool outputs.

use serde::Serialize;
use steadfast_core::content::ToolOutput;

/// Any serializable value as a JSON result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(
    /// The value.
    pub T,
);

impl<T: Serialize> From<Json<T>> for ToolOutput {
    fn from(Json(value): Json<T>) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::Json { value },
            // The tool did run: its result is lost, the call is not.
            Err(error) => Self::text(format!(
                "the tool ran; its result cannot be shown as JSON: {error}"
            )),
        }
    }
}
