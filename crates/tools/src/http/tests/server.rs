//! A server that reads whole requests and answers with the bytes it was given.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a connection gets after its request was read.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then nothing more.
    Hang(Vec<u8>),
    /// These bytes for ever.
    Flood(Vec<u8>),
}

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    /// For example `POST /refund HTTP/1.1`.
    pub(super) line: String,
    /// Lower-case names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|header| header.0 == name);
        named.next().map(|header| header.1.as_str())
    }
}

pub(super) struct Server {
    pub(super) url: String,
    requests: watch::Sender<Vec<Request>>,
    accepting: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/refund", listener.local_addr().unwrap());
        let requests = watch::Sender::new(Vec::new());
        let seen = requests.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, reply.clone(), seen.clone()));
            }
        });
        Self {
            url,
            requests,
            accepting,
        }
    }

    /// One that answers with this head and body.
    pub(super) async fn answering(head: &str, body: &[u8]) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n");
        Self::start(Reply::Bytes([head.as_bytes(), body].concat())).await
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    /// Until a request was read.
    pub(super) async fn asked(&self) {
        let mut requests = self.requests.subscribe();
        requests
            .wait_for(|requests| !requests.is_empty())
            .await
            .unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, seen: watch::Sender<Vec<Request>>) {
    let request = read_request(&mut stream).await;
    seen.send_modify(|requests| requests.push(request));
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).await.unwrap(),
        Reply::Hang(bytes) => {
            stream.write_all(&bytes).await.unwrap();
            std::future::pending::<()>().await;
        }
        Reply::Flood(bytes) => while stream.write_all(&bytes).await.is_ok() {},
    }
}

async fn read_request(stream: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap().to_owned();
            let headers: Vec<(String, String)> = lines
                .map(|header| header.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let request = Request {
                line,
                headers,
                body: body.to_owned(),
            };
            let length = request
                .header("content-length")
                .map_or(0, |text| text.parse().unwrap());
            if body.len() >= length {
                return request;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return Request::default();
        }
    }
}
