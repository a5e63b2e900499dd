//! A wire between two processes that the test can cut.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// State of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// It carries what is sent.
    Whole,
    /// Nothing comes through and nobody is told; what was sent meanwhile comes when it is whole
    /// again, as over a network that lost its packets for a while.
    Silent,
    /// Connections break, and new ones are refused.
    Broken,
}

/// A running proxy; dropping it breaks all its connections.
#[derive(Debug)]
pub struct CutProxy {
    address: SocketAddr,
    wire: watch::Sender<Wire>,
    accepting: JoinHandle<()>,
}

impl CutProxy {
    /// Starts a proxy for the server at this address, `host:port`.
    pub async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let wire = watch::Sender::new(Wire::Whole);
        let accepting = tokio::spawn(accept(listener, target, wire.subscribe()));
        Self {
            address,
            wire,
            accepting,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the wire, or heals it.
    pub fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: String, wire: watch::Receiver<Wire>) {
    // Connections end with this task: a set aborts its tasks when it is dropped.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                if *wire.borrow() != Wire::Broken {
                    connections.spawn(connect(client, target.clone(), wire.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, target: String, wire: watch::Receiver<Wire>) {
    // Nobody there: the client sees its connection closed.
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    for stream in [&client, &server] {
        let _slower_without = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = carry(from_client, to_server, wire.clone()) => {}
        () = carry(from_server, to_client, wire) => {}
    }
}

/// Carries bytes one way until either end, or the wire, breaks.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut wire: watch::Receiver<Wire>) {
    let mut bytes = vec![0; 64 << 10];
    let mut broken = wire.clone();
    let pass = async {
        loop {
            let Ok(length @ 1..) = from.read(&mut bytes).await else {
                return;
            };
            if wire.wait_for(|wire| *wire == Wire::Whole).await.is_err() {
                return;
            }
            if to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = pass => {}
        _ = broken.wait_for(|wire| *wire == Wire::Broken) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn echoing() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let mut echoes = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                echoes.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_silent_wire_holds_what_was_sent_and_a_broken_one_closes() {
        let proxy = CutProxy::start(echoing().await).await;
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let mut byte = [0];
        client.write_all(b"a").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"a");
        proxy.set(Wire::Silent);
        client.write_all(b"b").await.unwrap();
        let held = timeout(Duration::from_millis(50), client.read_exact(&mut byte)).await;
        assert!(held.is_err(), "it came through: {byte:?}");
        proxy.set(Wire::Whole);
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"b");
        proxy.set(Wire::Broken);
        assert_eq!(client.read(&mut byte).await.unwrap_or_default(), 0);
    }
}
