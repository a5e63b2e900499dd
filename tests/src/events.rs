//! A client of a session's event stream that comes back after every cut, and keeps all it saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::{Client, http};

/// How long a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(45);

/// A stream that is silent for longer is dead: it has a comment every ten seconds.
const SILENCE: Duration = Duration::from_secs(25);

/// One frame, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Where to resume after it: the newest cursor that came with it or before.
    pub id: Option<String>,
    /// Its kind.
    pub event: String,
    /// Its data, as JSON if it is.
    pub data: Value,
    /// The connection it came on, from 1.
    pub connection: u32,
}

impl Frame {
    /// Whether it is a committed event, and not a piece or a remark of the stream.
    pub fn is_committed(&self) -> bool {
        !matches!(self.event.as_str(), "delta" | "caught_up" | "error")
    }
}

#[derive(Debug, Default)]
struct Joined {
    frames: Vec<Frame>,
    connections: u32,
    cursor: Option<String>,
}

/// A reader of one session's events; dropping it ends it.
#[derive(Debug)]
pub struct EventClient {
    joined: Arc<Mutex<Joined>>,
    changed: watch::Sender<()>,
    reading: JoinHandle<()>,
}

impl EventClient {
    /// Reads a session's events from the start.
    pub fn follow(client: &Client, session: &str) -> Self {
        Self::follow_at(std::slice::from_ref(client), session)
    }

    /// The same at several nodes, after each cut at the next.
    pub fn follow_at(clients: &[Client], session: &str) -> Self {
        let joined = Arc::new(Mutex::new(Joined::default()));
        let changed = watch::Sender::new(());
        let path = format!("/v1/sessions/{session}/events");
        let urls = clients.iter().map(|client| client.url(&path)).collect();
        let reading = tokio::spawn(read_on(urls, Arc::clone(&joined), changed.clone()));
        Self {
            joined,
            changed,
            reading,
        }
    }

    /// All frames so far, of all connections, in order.
    pub fn frames(&self) -> Vec<Frame> {
        self.joined.lock().unwrap().frames.clone()
    }

    /// Waits until a frame is there.
    pub async fn wait_for(&self, what: &str, wanted: impl Fn(&Frame) -> bool) -> Frame {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                let found = self.frames().into_iter().find(|frame| wanted(frame));
                if let Some(frame) = found {
                    return frame;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(frame) => frame,
            Err(_) => panic!("no event {what} came: {:#?}", self.frames()),
        }
    }
}

impl Drop for EventClient {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read_on(urls: Vec<String>, joined: Arc<Mutex<Joined>>, changed: watch::Sender<()>) {
    let http = http();
    for url in urls.iter().cycle() {
        let cursor = joined.lock().unwrap().cursor.clone();
        let mut request = http.get(url).header("accept", "text/event-stream");
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        if let Ok(Ok(answer)) = timeout(SILENCE, request.send()).await
            && answer.status().is_success()
        {
            joined.lock().unwrap().connections += 1;
            let bytes = Box::pin(answer.bytes_stream());
            // A node that is frozen, or far away, closes nothing.
            let heard = stream::unfold(bytes, |mut bytes| async {
                let piece = timeout(SILENCE, bytes.next()).await.ok()??;
                Some((piece, bytes))
            });
            let mut events = Box::pin(heard.eventsource());
            while let Some(Ok(event)) = events.next().await {
                take(&joined, event);
                changed.send_replace(());
            }
        }
        // A browser waits before it connects again; a node that is down gives no sign.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn take(joined: &Mutex<Joined>, event: eventsource_stream::Event) {
    let mut joined = joined.lock().unwrap();
    let id = (!event.id.is_empty()).then_some(event.id);
    if id.is_some() {
        joined.cursor.clone_from(&id);
    }
    let data = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
    let connection = joined.connections;
    joined.frames.push(Frame {
        id,
        event: event.event,
        data,
        connection,
    });
}
