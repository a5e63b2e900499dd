//! What a model is told when there is no outcome to tell.

use crate::content::{CallOutput, Stored, ToolOutput};
use crate::event::{LostCall, Settlement};
use crate::id::CallId;
use crate::input::ReplayRule;
use crate::limits::DETAIL_BYTES_MAX;

/// Cuts a text to at most this many bytes, at a character.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

/// The output of a call that ends without one of its own.
pub(crate) fn without_outcome(
    settlement: Settlement,
    rule: ReplayRule,
    detail: &str,
) -> CallOutput {
    let words = match settlement {
        Settlement::Denied => return denied("the user denied this call", detail),
        Settlement::Expired => return denied("nobody answered the approval in time", detail),
        Settlement::Superseded => {
            return denied("the user sent a new message instead of answering", detail);
        }
        Settlement::Cancelled => match rule {
            ReplayRule::Safe => "Cancelled. The call may have run; it is safe to repeat.",
            ReplayRule::Keyed | ReplayRule::Never => {
                "Cancelled. The call may or may not have taken effect; check before repeating it."
            }
        },
        Settlement::Unreachable => "The tool could not be reached. It did nothing.",
        Settlement::Unknown => {
            "No outcome is known: every attempt was cut off. The call may have taken effect."
        }
        Settlement::InDoubt => {
            "No outcome is known: the call was cut off and is not repeated. It may or may not have \
             taken effect. Check before you try it again."
        }
        Settlement::ToolGone => "This tool is no longer available. The call did not run.",
        Settlement::Refused | Settlement::Done => "The call did not run.",
    };
    let text = if detail.is_empty() {
        words.to_owned()
    } else {
        format!("{words} ({detail})")
    };
    ToolOutput::error(text).into()
}

/// The answer to a question that nobody will answer.
pub(crate) fn dismissed() -> Stored<ToolOutput> {
    let value = serde_json::json!({ "action": "cancel" });
    Stored::Inline(ToolOutput::Json { value })
}

/// Why a remote call that no worker had in time did nothing.
pub(crate) const NO_WORKER: &str = "no worker took the job before its deadline";

/// What is told of a call in doubt once its job was withdrawn before any worker had it.
pub(crate) fn withdrawn() -> CallOutput {
    ToolOutput::error(WITHDRAWN).into()
}

/// The same, as its text.
pub const WITHDRAWN: &str = "The call did not run: its job was withdrawn before any worker had it.";

/// The output of a call that was cancelled before it could have done anything.
pub(crate) fn never_ran() -> CallOutput {
    ToolOutput::error("Cancelled. The call did not run.").into()
}

fn denied(words: &str, detail: &str) -> CallOutput {
    let reason = if detail.is_empty() {
        words.to_owned()
    } else {
        format!("{words}: {detail}")
    };
    ToolOutput::ExecutionDenied {
        reason: Some(reason),
    }
    .into()
}

/// What a model is told of an answer that does not fit.
pub(crate) fn answer_refused(detail: &str) -> String {
    format!(
        "Your answer was not taken: {detail}. Answer again with nothing but one JSON value that \
         fits the schema."
    )
}

/// The note of a repaired log.
pub(crate) fn repaired(calls: &[LostCall]) -> String {
    let mut text = "A part of this conversation was lost to a damaged disk and is not shown. What \
                    was asked for there may have been done; check before you do it again."
        .to_owned();
    if !calls.is_empty() {
        let named = calls
            .iter()
            .map(|lost| format!("{} ({})", lost.tool, lost.call));
        let named: Vec<String> = named.collect();
        let named = cut(&named.join(", "), 4 * DETAIL_BYTES_MAX);
        text.push_str(&format!(
            " Of these calls no outcome is known, and each may have taken effect: {named}."
        ));
    }
    text
}

/// The note for an answer that came after its call was settled without one.
pub(crate) fn late_answer(tool: &str, call: CallId, shown: &str) -> String {
    format!(
        "The earlier call of {tool} ({call}), whose outcome was not known, has been answered after \
         all: {shown}"
    )
}
