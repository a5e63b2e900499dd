//! Connections: limits and an orderly end.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use steadfast_api::{Limits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::world::{PATIENCE, World};

async fn listen(world: &World, limits: Limits) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = serve(
        listener,
        world.router.clone(),
        limits,
        world.shutdown.clone(),
    );
    (address, tokio::spawn(serving))
}

async fn talk(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text));
    // A connection that was reset has said what it had to say.
    let _ = read.await.expect("the connection was not closed");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn requests_come_over_sockets_with_their_address() {
    let world = World::new().await;
    let (address, _) = listen(&world, Limits::default()).await;
    let request = "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = rest(talk(address, request).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn heads_that_are_too_large_or_too_slow_are_refused() {
    let world = World::new().await;
    let limits = Limits {
        head_bytes_max: 8 * 1024,
        headers_max: 20,
        head_read_ms: 50,
        ..Limits::default()
    };
    let (address, _) = listen(&world, limits).await;
    let large = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let answer = rest(talk(address, &large).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: 1\r\n".repeat(30)
    );
    let answer = rest(talk(address, &many).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let slow = rest(talk(address, "GET / HTTP/1.1\r\nHost").await).await;
    assert!(!slow.contains(" 200 "), "{slow}");
    let nonsense = rest(talk(address, "\u{1}\u{2}nonsense\r\n\r\n").await).await;
    assert!(nonsense.starts_with("HTTP/1.1 400 "), "{nonsense}");
}

#[tokio::test]
async fn a_shutdown_ends_streams_and_closes_idle_connections() {
    let world = World::new().await;
    world.session("s1").await;
    let (address, serving) = listen(&world, Limits::default()).await;
    let request = "GET /v1/sessions/s1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = talk(address, request).await;
    let mut first = [0; 64];
    stream.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200 OK"));
    let idle = talk(address, "").await;
    world.shutdown.cancel();
    let text = rest(stream).await;
    assert!(
        text.ends_with("0\r\n\r\n"),
        "the stream did not end well: {text}"
    );
    assert_eq!(rest(idle).await, "");
    tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_shutdown_waits_for_requests_and_not_for_ever() {
    let world = World::new().await;
    world.session("s1").await;
    world.begin("s1", "m1", json!([{"hang": 60}])).await.ok(202);
    let limits = Limits {
        shutdown_ms: 100,
        ..Limits::default()
    };
    let (address, serving) = listen(&world, limits).await;
    // A wait ends at the shutdown with what is known.
    let request = "GET /v1/sessions/s1/messages/m1?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let waiting = talk(address, request).await;
    // A body that never comes holds its connection until the patience is over.
    let request = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n\
                   Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    let stuck = talk(address, request).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.shutdown.cancel();
    let answer = rest(waiting).await;
    assert!(answer.contains(r#""state":"running""#), "{answer}");
    assert!(!rest(stuck).await.contains(" 200 "));
    tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn more_connections_than_allowed_wait() {
    let world = World::new().await;
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    let (address, _) = listen(&world, limits).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = talk(address, request).await;
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let mut second = talk(address, request).await;
    let early = tokio::time::timeout(Duration::from_millis(50), second.read_exact(&mut byte));
    assert!(
        early.await.is_err(),
        "the second was served beside the first"
    );
    drop(first);
    let later = tokio::time::timeout(PATIENCE, second.read_exact(&mut byte));
    later.await.expect("the second was never served").unwrap();
}
