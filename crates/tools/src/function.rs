//! Tools written in Rust.
//!
//! ```
//! use serde::Deserialize;
//! use schemars::JsonSchema;
//! use steadfast_tools::catalog::Catalog;
//! use steadfast_tools::function::function;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Place {
//!     /// Name of the city.
//!     city: String,
//! }
//!
//! let weather = function("get_weather", "The weather of a city", |place: Place, _call| async move {
//!     Ok(format!("It is sunny in {}.", place.city))
//! });
//! let catalog = Catalog::builder().with(weather.safe()).build()?;
//! # Ok::<(), steadfast_tools::catalog::CatalogError>(())
//! ```

mod blocking;
mod call;
mod failure;
mod output;
mod worker;

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steadfast_core::content::ToolOutput;

pub(crate) use blocking::{BlockingHandler, BlockingWorker};
pub use call::ToolCall;
pub use failure::ToolFailure;
pub(crate) use failure::with_sources;
pub use output::Json;
pub(crate) use worker::FunctionWorker;

use crate::definition::{Runner, ToolDefinition};
use crate::spec::{ToolKind, ToolSpec};

/// A function with its types erased.
pub(crate) type Handler = Arc<
    dyn Fn(Value, ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> + Send + Sync,
>;

/// A tool from a Rust function whose input type gives the schema. The input must be a struct.
///
/// The function is one attempt of a call. What it returns is the outcome; an error converted by
/// `?` is [`ToolFailure::Unclassified`]. Code that blocks its thread belongs into a
/// [`blocking_function`]: here it holds up other functions, and cannot be stopped.
pub fn function<I, O, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> ToolDefinition
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Into<ToolOutput>,
    F: Fn(I, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolFailure>> + Send + 'static,
{
    let spec = ToolSpec::new(name, description, schema_of::<I>());
    let handler: Handler = Arc::new(move |input, call| match serde_json::from_value(input) {
        Ok(input) => run(input, call).map(|said| said.map(Into::into)).boxed(),
        Err(error) => std::future::ready(Err(invalid(&error))).boxed(),
    });
    ToolDefinition::new(spec, Runner::Function(handler))
}

/// A tool from a Rust function that blocks: a computation, or a library without `async`.
///
/// Each call has a thread of its own. Nothing can end a thread: it stops by itself when
/// [`ToolCall::cancelled`] says so, or it goes on after its call was given up and keeps its place
/// in the pool until it returns.
pub fn blocking_function<I, O, F>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> ToolDefinition
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Into<ToolOutput>,
    F: Fn(I, ToolCall) -> Result<O, ToolFailure> + Send + Sync + 'static,
{
    let spec = ToolSpec::new(name, description, schema_of::<I>());
    let handler: BlockingHandler = Arc::new(move |input, call| {
        let input = serde_json::from_value(input).map_err(|error| invalid(&error))?;
        run(input, call).map(Into::into)
    });
    ToolDefinition::new(spec, Runner::Blocking(handler))
}

fn invalid(error: &serde_json::Error) -> ToolFailure {
    ToolFailure::told(format!("invalid arguments, nothing was done: {error}"))
}

/// A tool from a Rust function whose input schema is known only at run time.
pub fn dynamic_function<O, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    input_schema: Value,
    run: F,
) -> ToolDefinition
where
    O: Into<ToolOutput>,
    F: Fn(Value, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolFailure>> + Send + 'static,
{
    let mut spec = ToolSpec::new(name, description, input_schema);
    spec.kind = ToolKind::Dynamic;
    let handler: Handler =
        Arc::new(move |input, call| run(input, call).map(|said| said.map(Into::into)).boxed());
    ToolDefinition::new(spec, Runner::Function(handler))
}

/// The JSON Schema 2020-12 of a type as it is read, with everything in place: few models follow
/// references well.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests;
