//! What tools did, and the tools that write it down.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steadfast_tools::catalog::{Catalog, CatalogBuilder};
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::function::{ToolCall, ToolFailure, dynamic_function};
use tokio::sync::{Notify, Semaphore};

/// What tools did, in order.
#[derive(Default)]
pub(crate) struct Ledger {
    lines: Mutex<Vec<String>>,
    /// A `hang` call is running.
    pub(crate) hanging: Notify,
    /// Lets `hang` calls end.
    pub(crate) gate: Gate,
}

/// A semaphore that begins without permits.
pub(crate) struct Gate(pub(crate) Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Ledger {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|found| *found == line).count()
    }
}

pub(super) fn standard_tools(ledger: &Arc<Ledger>) -> CatalogBuilder {
    let (look, charge, hang) = (Arc::clone(ledger), Arc::clone(ledger), Arc::clone(ledger));
    Catalog::builder()
        .with(
            tool("look", move |_, _| {
                look.write("look");
                async { Ok("seen".to_owned()) }
            })
            .safe(),
        )
        .with(tool("charge", move |_, _| {
            charge.write("charge");
            async { Ok("charged".to_owned()) }
        }))
        .with(tool("hang", move |_, _| {
            hang.write("hang");
            let hang = Arc::clone(&hang);
            async move {
                hang.hanging.notify_one();
                let permit = hang.gate.0.acquire().await.unwrap();
                permit.forget();
                hang.write("hang ends");
                Ok("hung".to_owned())
            }
        }))
}

/// A tool without arguments to speak of.
pub(crate) fn tool<F, Fut>(name: &str, run: F) -> ToolDefinition
where
    F: Fn(Value, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ToolFailure>> + Send + 'static,
{
    dynamic_function(name, "A tool", json!({ "type": "object" }), run)
}
