//! How much of a model's reply may stand inline, so that the Record of its decision is within its
//! size whatever the model asked for.

use steadfast_core::content::{ModelReply, ToolOutput};
use steadfast_core::input::{CallTriage, Gate};
use steadfast_core::limits::{INPUT_INLINE_BYTES_MAX, RECORD_BYTES_MAX};
use steadfast_protocol::encoded_bytes;

use super::SpillError;

/// What a reference to a blob takes in a Record; what is smaller is not worth moving.
pub(super) const REFERENCE_BYTES: usize = 112;
/// Of a Record, for its head and for what is decided besides the reply.
const REST_BYTES: usize = 8 * 1024;
/// What is decided about a call at once, without words.
const CALL_EVENT_BYTES: usize = 240;
/// The words of all refusals in one reply.
const REFUSALS_BYTES_MAX: usize = 24 * 1024;
/// A tool's name, and a provider's id of a call, at most.
const NAME_BYTES_MAX: usize = 64;

/// Cuts what cannot be moved into blobs: names that nothing has, and the words of many refusals.
pub(super) fn shorten(reply: &mut ModelReply, triage: &mut [CallTriage]) {
    for call in &mut reply.calls {
        cut(&mut call.tool, NAME_BYTES_MAX);
        // Without one of the provider's, its call is given one of ours.
        if call.provider_call_id.len() > NAME_BYTES_MAX {
            call.provider_call_id.clear();
        }
    }
    let words = triage
        .iter_mut()
        .filter_map(|triage| match &mut triage.gate {
            Gate::Refused { output } => words(output),
            Gate::Open | Gate::Approval { .. } => None,
        });
    let words: Vec<&mut String> = words.collect();
    let bytes: usize = words.iter().map(|text| text.len()).sum();
    if bytes > REFUSALS_BYTES_MAX {
        let share = REFUSALS_BYTES_MAX / words.len();
        words.into_iter().for_each(|text| cut(text, share));
    }
}

/// The inline parts and inputs of this reply together, at most.
pub(super) fn inline_bytes_max(
    reply: &mut ModelReply,
    triage: &[CallTriage],
) -> Result<usize, SpillError> {
    let too_large =
        |error: steadfast_protocol::EncodeError| SpillError::TooLarge(error.to_string());
    let mut fixed = REST_BYTES + reply.wire.len() + reply.model.len();
    for triage in triage {
        fixed += encoded_bytes(triage).map_err(too_large)? + CALL_EVENT_BYTES;
    }
    for call in &reply.calls {
        fixed += call.provider_call_id.len() + call.tool.len() + REFERENCE_BYTES;
    }
    fixed += super::reply_parts(reply)
        .map(|part| part.size().min(REFERENCE_BYTES))
        .sum::<usize>();
    let room = RECORD_BYTES_MAX.saturating_sub(fixed);
    Ok(room.min(INPUT_INLINE_BYTES_MAX))
}

fn words(output: &mut ToolOutput) -> Option<&mut String> {
    match output {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => Some(text),
        ToolOutput::ExecutionDenied { reason } => reason.as_mut(),
        ToolOutput::Json { .. } | ToolOutput::ErrorJson { .. } | ToolOutput::Content { .. } => None,
    }
}

fn cut(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession};
    use steadfast_core::content::{
        BlobHash, BlobRef, CallInput, Finish, ProposedCall, ReplyPart, Stored, Usage,
    };
    use steadfast_core::id::{
        CommandId, Epoch, NodeId, SessionId, SessionKey, TenantId, Timestamp,
    };
    use steadfast_core::input::{Activate, InDoubtPolicy, Input, Place, Policy, ReplayRule};
    use steadfast_core::limits::{CALLS_PER_REPLY_MAX, DETAIL_BYTES_MAX, PARTS_PER_INPUT_MAX};
    use steadfast_core::session::Session;
    use steadfast_core::{apply, decide, outstanding};
    use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};

    use super::super::to_move;
    use super::*;

    const NOW: Timestamp = Timestamp(1_900_000_000_123);

    /// The size of the Record.
    fn commit(session: &mut Session, input: &Input) -> usize {
        let events = decide(session, input, NOW).events;
        let id = CommandId::new("c".repeat(128)).unwrap();
        let record = Record {
            first_seq: session.seq.next(),
            epoch: session.epoch,
            prev: RecordHash::of(b"the record before"),
            entries: vec![Entry {
                cause: Cause::Command { id },
                at: NOW,
                events: events.clone(),
            }],
        };
        for event in &events {
            apply(session, NOW, event);
        }
        record::encode(&record).unwrap().len()
    }

    /// A session that waits for its model.
    fn asking() -> Session {
        let mut session = Session::new(SessionKey {
            tenant: TenantId::new("t".repeat(64)).unwrap(),
            session: SessionId::new("s".repeat(128)).unwrap(),
        });
        let activate = Activate {
            node: NodeId::new("n".repeat(64)).unwrap(),
            epoch_min: Epoch(u64::from(u32::MAX)),
            policy: Policy::default(),
            open_calls: Vec::new(),
        };
        commit(&mut session, &Input::Activate(activate));
        let body = CommandBody::Submit {
            content: Vec::new(),
            options: MessageOptions::default(),
            new: Some(NewSession {
                agent: "helper".parse().unwrap(),
                metadata: serde_json::Value::Null,
                tags: Vec::new(),
            }),
        };
        let id = CommandId::new("m").unwrap();
        let command = Command { id, body };
        let receipted = false;
        commit(&mut session, &Input::Command { command, receipted });
        session
    }

    fn triage(gate: Gate) -> CallTriage {
        CallTriage {
            gate,
            rule: ReplayRule::Never,
            place: Place::Remote,
            in_doubt: InDoubtPolicy::TellModel,
            has_check: false,
            exclusive: false,
            deadline_ms: u64::MAX / 2,
            attempts_max: u32::MAX,
            slot: true,
            agent: None,
        }
    }

    fn gates() -> [Gate; 4] {
        let words = "r".repeat(DETAIL_BYTES_MAX);
        [
            Gate::Open,
            Gate::Approval {
                expires_in_ms: Some(1 << 60),
            },
            Gate::Refused {
                output: ToolOutput::error(words.clone()),
            },
            Gate::Refused {
                output: ToolOutput::ExecutionDenied {
                    reason: Some(words),
                },
            },
        ]
    }

    /// Parts and calls with inputs of these sizes; the last parts say where the calls stand.
    fn reply(texts: &[usize], inputs: &[usize], placed: bool) -> ModelReply {
        let text = |bytes: &usize| {
            Stored::Inline(ReplyPart::Text {
                text: "x".repeat(*bytes),
                native: None,
            })
        };
        let places = (0..inputs.len()).map(|index| {
            Stored::Inline(ReplyPart::Call {
                index: index.try_into().unwrap(),
                native: None,
            })
        });
        let places = places.take(if placed { inputs.len() } else { 0 });
        let texts = texts.iter().map(text);
        ModelReply {
            wire: "anthropic".into(),
            model: "m".repeat(64),
            parts: places.chain(texts).take(PARTS_PER_INPUT_MAX).collect(),
            calls: inputs
                .iter()
                .map(|bytes| ProposedCall {
                    provider_call_id: "p".repeat(300),
                    tool: "ü".repeat(300),
                    input: Stored::Inline(CallInput::Json(json!({ "x": "y".repeat(*bytes) }))),
                })
                .collect(),
            finish: Finish::ToolCalls,
            usage: Usage::default(),
        }
    }

    /// What the spill does, without writing blobs.
    fn spilled(reply: &mut ModelReply, triage: &mut [CallTriage]) {
        shorten(reply, triage);
        let inline_max = inline_bytes_max(reply, triage).unwrap();
        let blob = BlobRef {
            hash: BlobHash::of(b"x"),
            size_bytes: u64::from(u32::MAX),
        };
        let parts = super::super::reply_parts(reply).collect();
        for part in to_move(parts, inline_max) {
            part.replace(blob);
        }
    }

    fn sizes(most: usize) -> impl Strategy<Value = Vec<usize>> {
        let size = prop_oneof![3 => 0_usize..200, 2 => 200_usize..2_000, 1 => 2_000_usize..20_000];
        prop_oneof![
            proptest::collection::vec(size, 0..=most),
            (Just(most), 0_usize..1_000).prop_map(|(count, size)| vec![size; count]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_record_of_any_reply_fits(
            texts in sizes(PARTS_PER_INPUT_MAX),
            inputs in sizes(CALLS_PER_REPLY_MAX),
            placed in any::<bool>(),
        ) {
            for gate in gates() {
                let mut reply = reply(&texts, &inputs, placed);
                let mut triage = vec![triage(gate.clone()); inputs.len()];
                spilled(&mut reply, &mut triage);
                let mut session = asking();
                let effect = outstanding(&session)[0];
                let input = Input::ModelReplied { effect, reply, triage, unfit: None };
                let bytes = commit(&mut session, &input);
                prop_assert!(bytes <= RECORD_BYTES_MAX, "{bytes} for {gate:?}");
                let calls = session.turn.as_ref().map_or(0, |turn| turn.calls_total);
                prop_assert_eq!(calls as usize, inputs.len());
            }
        }
    }
}
