//! Bytes to a socket, and the answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than the node lets any body take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a node may think before it is told that no more comes. Not at once: a connection whose
/// client has closed its side gets no answer.
const HALF_CLOSE_AFTER: Duration = Duration::from_secs(4);

/// An answer; its status is 0 if there was none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body)
            .chars()
            .take(300)
            .collect()
    }

    fn parse(bytes: &[u8]) -> Self {
        // Word that the body may come is no answer.
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        let bytes = bytes.strip_prefix(go_on).unwrap_or(bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, body) = match end {
            Some(end) => (&bytes[..end], &bytes[end + 4..]),
            None => (bytes, &[][..]),
        };
        let head = String::from_utf8_lossy(head);
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let header = |wanted: &str| {
            head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let found = name.eq_ignore_ascii_case(wanted);
                found.then(|| value.trim().to_owned())
            })
        };
        // What was damaged into an empty line makes two requests of one: the second has an answer, too.
        let length = header("content-length").and_then(|length| length.parse().ok());
        let body = length.and_then(|length| body.get(..length)).unwrap_or(body);
        Self {
            status: status.unwrap_or(0),
            content_type: header("content-type"),
            body: body.to_vec(),
        }
    }
}

/// A request that ends its connection.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends bytes and reads to the end of the connection.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A node that has heard enough may close while we still send.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(HALF_CLOSE_AFTER, stream.read_to_end(&mut answer)).await;
    if reading.is_err() {
        // The node waits for more of it: there is no more.
        let _ = stream.shutdown().await;
        let more = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        assert!(
            more.is_ok(),
            "never closed: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    Answer::parse(&answer)
}

/// A body that begins and does not go on.
pub(crate) async fn slow_body(address: SocketAddr) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/sessions/s1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    read(stream).await
}

async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    assert!(
        reading.is_ok(),
        "never closed: {}",
        String::from_utf8_lossy(&bytes)
    );
    Answer::parse(&bytes)
}
