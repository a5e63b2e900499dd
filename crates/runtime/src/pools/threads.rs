//! Threads for Rust functions, apart from those that keep the node alive.

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of their own, or none.
pub(super) struct Threads {
    runtime: Option<Runtime>,
}

impl Threads {
    /// As many threads; with none, functions run on the runtime's own.
    pub(super) fn new(count: usize) -> Self {
        if count == 0 {
            return Self { runtime: None };
        }
        let built = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("tools")
            .enable_all()
            .build();
        if let Err(error) = &built {
            tracing::error!(%error, "no threads for tools: they share those of the node");
        }
        Self {
            runtime: built.ok(),
        }
    }

    pub(super) fn handle(&self) -> Option<Handle> {
        self.runtime
            .as_ref()
            .map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Not waited for: a function that blocks may never come back.
            runtime.shutdown_background();
        }
    }
}
