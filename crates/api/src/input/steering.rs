//! What a message says about the loop of its turn.

use serde::Deserialize;
use serde_json::Value;
use steadfast_runtime::agent::AnswerSchema;
use utoipa::ToSchema;

use crate::error::Problem;

/// A schema has at most so many bytes as JSON.
const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// Whether a turn calls tools, as its schema.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ToolChoice)]
#[allow(dead_code)]
pub(crate) enum ToolChoiceSchema {
    /// The model may.
    Auto,
    /// It must not.
    None,
    /// It must call one before it answers.
    Required,
    /// It must call this one before it answers.
    Tool(String),
}

/// Refuses a schema that no answer could be checked against.
pub(crate) fn check_schema(schema: Option<&Value>) -> Result<(), Problem> {
    let Some(schema) = schema else { return Ok(()) };
    if schema.to_string().len() > SCHEMA_BYTES_MAX {
        let rule = format!("it may have at most {SCHEMA_BYTES_MAX} bytes of JSON");
        return Err(Problem::field("output_schema", rule));
    }
    match AnswerSchema::new(schema.clone()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::field("output_schema", error.to_string())),
    }
}
