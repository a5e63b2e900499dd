//! A small HTTP/1.1 server on a free loopback port, with control over what a real server only does
//! when it breaks: say nothing, or close the connection.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// A request, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// In capitals.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    /// Its bytes.
    pub body: Bytes,
}

impl Request {
    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path))
    }
}

/// What is done about a request.
#[derive(Debug)]
pub enum Response {
    /// An answer, whole.
    Whole {
        /// Status code.
        status: u16,
        /// Names and values.
        headers: Vec<(String, String)>,
        /// Its bytes.
        body: Bytes,
    },
    /// An answer in pieces; an error closes the connection in the middle.
    Stream {
        /// Status code.
        status: u16,
        /// Names and values.
        headers: Vec<(String, String)>,
        /// The pieces; the answer ends when the sender is dropped.
        pieces: mpsc::Receiver<io::Result<Bytes>>,
    },
    /// No answer, until the other side gives up.
    Silence,
    /// The connection is closed without an answer.
    Cut,
}

impl Response {
    /// An answer in JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Whole {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: Bytes::from(body.to_string()),
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;
type Handler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;
type Body = http_body_util::combinators::BoxBody<Bytes, io::Error>;

/// A running server; dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Starts a server that gives each request to `handler`.
    pub async fn start<F, A>(handler: F) -> Self
    where
        F: Fn(Request) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        let accepting = tokio::spawn(accept(listener, handler));
        Self { address, accepting }
    }

    /// `http://127.0.0.1:<port>`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, handler: Handler) {
    // Connections end with this task: a set aborts its tasks when it is dropped.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                connections.spawn(serve(stream, Arc::clone(&handler)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, handler: Handler) {
    let service = service_fn(move |request| answer(request, Arc::clone(&handler)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error here is the other side gone, or a cut that was asked for.
    let _ = connection.await;
}

async fn answer(
    request: hyper::Request<Incoming>,
    handler: Handler,
) -> Result<hyper::Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    };
    let request = Request {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers.iter().map(header).collect(),
        body,
    };
    match handler(request).await {
        Response::Whole {
            status,
            headers,
            body,
        } => {
            let body = http_body_util::Full::new(body).map_err(|never: Infallible| match never {});
            build(status, headers, body.boxed())
        }
        Response::Stream {
            status,
            headers,
            pieces,
        } => {
            let pieces = stream::unfold(pieces, |mut pieces| async {
                let piece = pieces.recv().await?;
                Some((piece, pieces))
            });
            let frames = pieces.map(|piece| piece.map(Frame::data));
            build(status, headers, BodyExt::boxed(StreamBody::new(frames)))
        }
        Response::Silence => std::future::pending().await,
        Response::Cut => Err(io::Error::other("cut")),
    }
}

fn build(
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
) -> Result<hyper::Response<Body>, io::Error> {
    let mut response = hyper::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).map_err(io::Error::other)
}
