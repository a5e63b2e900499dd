//! Who must agree to a call, decided over its input.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use crate::spec::Approval;

type Decide = dyn Fn(&Value) -> Approval + Send + Sync;

/// Decides over the checked input of a call; quick, without IO, and the same for the same input.
#[derive(Clone)]
pub struct ApprovalPolicy {
    decide: Arc<Decide>,
}

impl ApprovalPolicy {
    /// A policy from a closure.
    pub fn new(decide: impl Fn(&Value) -> Approval + Send + Sync + 'static) -> Self {
        Self {
            decide: Arc::new(decide),
        }
    }

    /// The verdict over an input. A policy that panics denies: a call must not slip through a
    /// broken guard.
    pub fn decide(&self, input: &Value) -> Approval {
        catch_unwind(AssertUnwindSafe(|| (self.decide)(input))).unwrap_or_else(|_| {
            tracing::error!("an approval policy panicked; the call is denied");
            Approval::Denied
        })
    }
}

impl fmt::Debug for ApprovalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalPolicy")
    }
}
