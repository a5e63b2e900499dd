//! Serves the surface on a listener: connections with limits, and an orderly end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::auth::Peer;
use crate::options::Limits;

/// Wait after a failed `accept`: out of file descriptors is not over at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`; then takes no more requests, lets running ones end for
/// [`Limits::shutdown_ms`], and returns when no connection is left.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let connections = TaskTracker::new();
    let hard_stop = CancellationToken::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = connection(stream, Peer(address), app.clone(), limits, shutdown.clone());
        let hard_stop = hard_stop.clone();
        connections.spawn(async move {
            let _place = place;
            hard_stop.run_until_cancelled(connection).await;
        });
    }
    drop(listener);
    connections.close();
    let patience = Duration::from_millis(limits.shutdown_ms);
    if tokio::time::timeout(patience, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            open = connections.len(),
            "closing connections that still work"
        );
        hard_stop.cancel();
        connections.wait().await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    app: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    // Frames of a stream are small and wanted at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection gone");
        return;
    }
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let response: Result<_, Infallible> = app.oneshot(request).await;
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.head_read_ms))
        .max_headers(limits.headers_max)
        .max_buf_size(limits.head_bytes_max)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
