//! Where a request lets the provider cache its prefix.

use serde_json::{Map, Value, json};

/// Breakpoints in one request, at most.
const BREAKPOINTS_MAX: usize = 4;

/// Sets breakpoints at the end of the tools, of the instructions and of the last two messages of
/// the user: the next request finds the newest at the place where it stands now.
pub(super) fn set_breakpoints(body: &mut Map<String, Value>) {
    let mut left = BREAKPOINTS_MAX.saturating_sub(count(body));
    // The provider sets the last one itself when it is asked to.
    let automatic = body.contains_key("cache_control");
    let mut mark = |block: Option<&mut Value>| {
        if left > 0
            && let Some(Value::Object(block)) = block
            && !block.contains_key("cache_control")
        {
            block.insert("cache_control".into(), json!({"type": "ephemeral"}));
            left -= 1;
        }
    };
    if let Some(Value::Array(messages)) = body.get_mut("messages") {
        let of_user = messages
            .iter_mut()
            .rev()
            .filter(|message| message.get("role") == Some(&json!("user")));
        for (age, message) in of_user.take(2).enumerate() {
            if !(age == 0 && automatic) {
                mark(last(message.get_mut("content")));
            }
        }
    }
    mark(last(body.get_mut("system")));
    mark(last(body.get_mut("tools")));
}

fn last(list: Option<&mut Value>) -> Option<&mut Value> {
    list?.as_array_mut()?.last_mut()
}

/// Breakpoints that the agent's options brought along.
fn count(body: &Map<String, Value>) -> usize {
    let in_list = |key: &str| {
        body.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|block| block.get("cache_control").is_some())
            .count()
    };
    usize::from(body.contains_key("cache_control")) + in_list("tools") + in_list("system")
}
