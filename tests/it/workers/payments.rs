//! A payment service that answers when it is told to, and keeps what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use steadfast_tests::http_server::{HttpServer, Request, Response};
use tokio::sync::watch;

/// How long a test waits for a request.
const PATIENCE: Duration = Duration::from_secs(45);

/// The service; requests wait until it is open.
pub(super) struct Payments {
    server: HttpServer,
    open: watch::Sender<bool>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Path and key of each request, as it came.
    asked: Mutex<Vec<(String, String)>>,
    changed: watch::Sender<()>,
}

impl Payments {
    pub(super) async fn start() -> Self {
        let (open, state) = (watch::Sender::new(false), Arc::new(State::default()));
        let server = HttpServer::start({
            let (open, state) = (open.clone(), Arc::clone(&state));
            move |request| answer(request, open.subscribe(), Arc::clone(&state))
        })
        .await;
        Self {
            server,
            open,
            state,
        }
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Answers what waits and what comes.
    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Path and key of each request so far.
    pub(super) fn asked(&self) -> Vec<(String, String)> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Waits until so many requests came.
    pub(super) async fn until_asked(&self, count: usize) {
        let mut changed = self.state.changed.subscribe();
        let came = async {
            while self.asked().len() < count {
                changed.changed().await.unwrap();
            }
        };
        let came = tokio::time::timeout(PATIENCE, came).await;
        assert!(came.is_ok(), "only {:?}", self.asked());
    }
}

async fn answer(request: Request, mut open: watch::Receiver<bool>, state: Arc<State>) -> Response {
    let key = request.header("idempotency-key").unwrap_or_default();
    let asked = (request.path.clone(), key.to_owned());
    state.asked.lock().unwrap().push(asked);
    state.changed.send_replace(());
    if open.wait_for(|open| *open).await.is_err() {
        return Response::Cut;
    }
    Response::json(200, &json!({ "receipt": key }))
}
