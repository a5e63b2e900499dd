//! What a server tells or asks by itself.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
    RequestId, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

/// Questions of one call that wait to be taken up, at most: it has one at a time.
const ASKS_MAX: usize = 4;

/// Our side of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Handler {
    /// The server says that its tools are others now.
    pub(super) changed: Arc<Notify>,
    pub(super) calls: Calls,
}

/// Calls that run over one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    running: Arc<Mutex<Vec<Running>>>,
}

#[derive(Debug)]
struct Running {
    request: RequestId,
    /// Under which the server reports.
    token: ProgressToken,
    progress: mpsc::Sender<Value>,
    asks: mpsc::Sender<Ask>,
}

/// A server asks somebody something before it goes on with a call.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) params: ElicitRequestParams,
    pub(super) answer: oneshot::Sender<ElicitResult>,
}

impl Calls {
    /// What the server says of this call goes to these channels until the guard is dropped.
    pub(super) fn enter(
        &self,
        request: RequestId,
        token: ProgressToken,
        progress: mpsc::Sender<Value>,
    ) -> (Entered, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.push(Running {
            request: request.clone(),
            token,
            progress,
            asks,
        });
        let entered = Entered {
            calls: self.clone(),
            request,
        };
        (entered, asked)
    }

    fn report(&self, token: &ProgressToken, report: Value) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = running.iter().find(|call| call.token == *token) {
            // Full or closed means that nobody can see it.
            let _unseen = call.progress.try_send(report);
        }
    }

    /// The call that asks. Over HTTP the stream tells; a program says no more than that it asks, so
    /// it is understood only while it has one call: one session must not be asked for another.
    fn asker(&self, origin: Option<&InboundStreamOrigin>) -> Option<mpsc::Sender<Ask>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let call = match (origin, running.as_slice()) {
            (Some(InboundStreamOrigin::OutboundRequest(id)), running) => {
                running.iter().find(|call| call.request == *id)
            }
            (Some(InboundStreamOrigin::Unassociated) | None, [only]) => Some(only),
            (Some(InboundStreamOrigin::Unassociated) | None, _) => None,
        };
        call.map(|call| call.asks.clone())
    }
}

/// A call that runs.
#[derive(Debug)]
pub(super) struct Entered {
    calls: Calls,
    request: RequestId,
}

impl Entered {
    /// Reports go to another channel from now on.
    pub(super) fn report_to(&self, progress: mpsc::Sender<Value>) {
        let running = &self.calls.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = running.iter_mut().find(|call| call.request == self.request) {
            call.progress = progress;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let running = &self.calls.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|call| call.request != self.request);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(
            capabilities,
            Implementation::new("steadfast", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let origin = context.extensions.get::<InboundStreamOrigin>();
        let nobody = |why: &'static str| ErrorData::invalid_request(why, None);
        let Some(asker) = self.calls.asker(origin) else {
            tracing::warn!("an MCP server asks something, and several of its calls may be meant");
            return Err(nobody("nobody can tell which call this is asked for"));
        };
        let (answer, answered) = oneshot::channel();
        let ask = Ask { params, answer };
        if asker.try_send(ask).is_err() {
            return Err(nobody(
                "the call that asks is over, or asks too much at once",
            ));
        }
        answered
            .await
            .map_err(|_| nobody("the call that asked is over"))
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
