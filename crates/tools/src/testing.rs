//! What the tests of several workers share.

use serde_json::Value;
use steadfast_core::id::{CallId, Epoch, Seq, SessionId, SessionKey, TenantId, Timestamp, TurnId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::worker::{Job, ToolIo};

/// The key of [`job`].
pub(crate) const KEY: &str = "acme/s1/3-17-2";

/// Attempt 2 of a call in turn 12, with ten seconds left.
pub(crate) fn job(input: Value) -> Job {
    Job {
        session: SessionKey {
            tenant: TenantId::new("acme").unwrap(),
            session: SessionId::new("s1").unwrap(),
        },
        turn: TurnId(Seq(12)),
        call: CallId {
            epoch: Epoch(3),
            reply: Seq(17),
            index: 2,
        },
        attempt: 2,
        epoch: Epoch(4),
        tool: "tool".to_owned(),
        input,
        deadline: Timestamp(0),
        remaining_ms: 10_000,
        answered: None,
        approval_reason: None,
        metadata: Value::Null,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    }
}

/// The same with this much time left.
pub(crate) fn job_within(input: Value, remaining_ms: u64) -> Job {
    Job {
        remaining_ms,
        ..job(input)
    }
}

/// What a running tool may do; its progress goes nowhere.
pub(crate) fn io() -> ToolIo {
    let (progress, _) = mpsc::channel(1);
    ToolIo::new(CancellationToken::new(), progress)
}
