//! Waits for a slot of a tool's pool.

use steadfast_core::id::CallId;
use steadfast_core::input::Input;

use super::task::{Ended, Task};

pub(super) async fn run(task: Task, call: CallId) -> Ended {
    let tool = task.call(call).map(|call| call.tool.as_str());
    let tool = tool
        .zip(task.agent())
        .and_then(|(name, agent)| agent.catalog.get(name));
    let slot = match tool {
        Some(tool) => {
            tokio::select! { biased;
                () = task.cancelled.cancelled() => return Ended::silently(),
                slot = task.host.pools.reserve(&tool, &task.session.key) => slot,
            }
        }
        // A tool that is gone has no pool; its call ends when it is tried.
        None => None,
    };
    Ended {
        input: Some(Input::SlotReady { call }),
        slots: slot.map(|slot| (call.index, slot)).into_iter().collect(),
    }
}
