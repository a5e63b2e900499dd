//! What a server tells or asks by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RoleClient};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Our side of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Handler {
    /// The server says that its tools are others now.
    pub(super) changed: Arc<Notify>,
    pub(super) calls: Calls,
}

/// Calls that run over one connection, by the token under which the server reports.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    running: Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<Value>>>>,
}

impl Calls {
    /// Reports go to this channel until the guard is dropped.
    pub(super) fn enter(&self, token: ProgressToken, progress: mpsc::Sender<Value>) -> Entered {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(token.clone(), progress);
        Entered {
            calls: self.clone(),
            token,
        }
    }

    fn report(&self, token: &ProgressToken, report: Value) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = running.get(token) {
            // Full or closed means that nobody can see it.
            let _unseen = progress.try_send(report);
        }
    }
}

/// A call that runs.
pub(super) struct Entered {
    calls: Calls,
    token: ProgressToken,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let calls = &self.calls.running;
        let mut running = calls.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.token);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("steadfast", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let mut report = json!({ "progress": params.progress });
        if let Some(total) = params.total {
            report["total"] = total.into();
        }
        if let Some(message) = params.message {
            report["message"] = message.into();
        }
        self.calls.report(&params.progress_token, report);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
