//! The tools of the tour: an HTTP server in this process, which outlives the node and counts.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Tool;

/// Who calls the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A Steadfast node.
    Durable,
    /// The loop without a log.
    Naive,
}

/// One request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) side: Side,
    pub(crate) tool: Tool,
    /// Its `Idempotency-Key`.
    pub(crate) key: Option<String>,
    /// Something happened outside because of it.
    pub(crate) effect: bool,
}

#[derive(Debug, Default)]
struct Ledger {
    arrivals: Vec<Arrival>,
    charged: BTreeSet<String>,
}

/// The server. The first request for each tool by each side is carried out and never answered: in
/// the middle of it the caller dies.
pub(crate) struct ToolServer {
    base: String,
    ledger: Arc<Mutex<Ledger>>,
    arrived: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

impl ToolServer {
    /// Starts on a free port of this machine.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let (count, arrived) = watch::channel(0);
        let desk = Desk {
            ledger: Arc::clone(&ledger),
            count: Arc::new(count),
        };
        let mut server = JoinSet::new();
        server.spawn(accept(listener, desk));
        Ok(Self {
            base,
            ledger,
            arrived,
            _server: server,
        })
    }

    /// Address of a tool.
    pub(crate) fn url(&self, side: Side, tool: Tool) -> String {
        let side = match side {
            Side::Durable => "durable",
            Side::Naive => "naive",
        };
        format!("{}/{side}/{}", self.base, tool.name())
    }

    /// All requests of one side so far, in order.
    pub(crate) fn arrivals(&self, side: Side) -> Vec<Arrival> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger
            .arrivals
            .iter()
            .filter(|arrival| arrival.side == side)
            .cloned()
            .collect()
    }

    /// Waits for the `count`th request of one side for a tool.
    pub(crate) async fn arrival(
        &self,
        side: Side,
        tool: Tool,
        count: usize,
    ) -> anyhow::Result<Arrival> {
        let mut arrived = self.arrived.clone();
        loop {
            let mut all = self.arrivals(side).into_iter();
            if let Some(arrival) = all
                .by_ref()
                .filter(|arrival| arrival.tool == tool)
                .nth(count - 1)
            {
                return Ok(arrival);
            }
            arrived.changed().await?;
        }
    }
}

#[derive(Clone)]
struct Desk {
    ledger: Arc<Mutex<Ledger>>,
    count: Arc<watch::Sender<usize>>,
}

async fn accept(listener: TcpListener, desk: Desk) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, desk.clone()));
                }
                Err(error) => tracing::warn!(%error, "the tour's tools could not accept a connection"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, desk: Desk) {
    let answer = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    // A caller that dies in the middle is what the tour is about.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut path = request.uri().path().trim_start_matches('/').split('/');
        let side = match path.next() {
            Some("durable") => Side::Durable,
            Some("naive") => Side::Naive,
            _ => return status(StatusCode::NOT_FOUND),
        };
        let Some(tool) = path.next().and_then(Tool::named) else {
            return status(StatusCode::NOT_FOUND);
        };
        let key = request.headers().get("idempotency-key");
        let key = key.and_then(|key| key.to_str().ok()).map(str::to_owned);
        if request.into_body().collect().await.is_err() {
            return status(StatusCode::BAD_REQUEST);
        }
        if self.carry_out(side, tool, key) {
            // Carried out, but no answer ever comes: the caller is killed now.
            std::future::pending::<()>().await;
        }
        let body = match tool {
            Tool::ReadOrder => r#"{"order":"A-17","cents":4200,"state":"returned"}"#,
            Tool::ChargeCard => r#"{"charged_cents":500}"#,
            Tool::SendRefund => r#"{"refunded_cents":4200}"#,
        };
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        response.headers_mut().insert(
            CONTENT_TYPE,
            hyper::header::HeaderValue::from_static("application/json"),
        );
        response
    }

    /// Does what the tool does, once more or not; whether it is the first of its kind.
    fn carry_out(&self, side: Side, tool: Tool, key: Option<String>) -> bool {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let effect = match (tool, &key) {
            (Tool::ReadOrder, _) => false,
            // A payment service that knows the key does not charge again.
            (Tool::ChargeCard, Some(key)) => ledger.charged.insert(key.clone()),
            (Tool::ChargeCard, None) | (Tool::SendRefund, _) => true,
        };
        let same = |arrival: &&Arrival| arrival.side == side && arrival.tool == tool;
        let first = ledger.arrivals.iter().filter(same).count() == 0;
        ledger.arrivals.push(Arrival {
            side,
            tool,
            key,
            effect,
        });
        let count = ledger.arrivals.len();
        drop(ledger);
        self.count.send_replace(count);
        first
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
