//! Every error that can reach a client, one row each, and how it is written.
//!
//! Codes are stable: programs compare them. Titles are for people and may change. What a store or
//! a provider says in its own words is logged and never sent.

use axum::http::StatusCode;

mod from;
mod problem;

pub use problem::{Problem, ProblemBody};

macro_rules! errors {
    ($($name:ident $code:literal $status:ident $title:literal)*) => {
        /// A stable code with its HTTP status and title.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $title] $name,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code on the wire.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The HTTP status it always has.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// What it means, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

errors! {
    PathNotFound "path_not_found" NOT_FOUND "No such route"
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "The route does not know this method"
    PathInvalid "path_invalid" BAD_REQUEST "A part of the path is not valid"
    QueryInvalid "query_invalid" BAD_REQUEST "A query parameter is not valid"
    HeaderInvalid "header_invalid" BAD_REQUEST "A header is not valid"
    MediaTypeUnsupported "media_type_unsupported" UNSUPPORTED_MEDIA_TYPE "The body must be JSON"
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE "The body is too large"
    BodyTimeout "body_timeout" REQUEST_TIMEOUT "The body did not come in time"
    BodyIncomplete "body_incomplete" BAD_REQUEST "The body broke off"
    BodyNotUtf8 "body_not_utf8" BAD_REQUEST "The body is not UTF-8"
    BodyNotJson "body_not_json" BAD_REQUEST "The body is not JSON"
    BodyTooDeep "body_too_deep" BAD_REQUEST "The body is nested too deeply"
    FieldMissing "field_missing" BAD_REQUEST "A field is missing"
    FieldUnknown "field_unknown" BAD_REQUEST "A field is not known"
    FieldDuplicate "field_duplicate" BAD_REQUEST "A field is given twice"
    FieldInvalid "field_invalid" BAD_REQUEST "A field is not valid"
    AgentUnknown "agent_unknown" BAD_REQUEST "The named agent is not configured"
    ToolUnknown "tool_unknown" BAD_REQUEST "The agent has no tool of this name"
    Unauthorized "unauthorized" UNAUTHORIZED "A valid API key is needed"
    ScopeMissing "scope_missing" FORBIDDEN "The API key may not do this"
    LoopbackOnly "loopback_only" FORBIDDEN "Without API keys only this machine is served"
    HostNotAllowed "host_not_allowed" FORBIDDEN "The Host header names another machine"
    OriginNotAllowed "origin_not_allowed" FORBIDDEN "Pages of this origin are not allowed"
    SessionNotFound "session_not_found" NOT_FOUND "No such session"
    SessionExists "session_exists" CONFLICT "The session exists with another content"
    SessionDeleting "session_deleting" CONFLICT "The session is being removed"
    SessionQuarantined "session_quarantined" CONFLICT "The session's log cannot be read"
    SessionNotQuarantined "session_not_quarantined" CONFLICT "The session's log can be read"
    SessionChanged "session_changed" CONFLICT "The session changed meanwhile"
    SessionBeyondRepair "session_beyond_repair" CONFLICT "The end of the session's log cannot be read"
    SessionNewer "session_newer" SERVICE_UNAVAILABLE "The session was written by a newer release"
    AgentNotFound "agent_not_found" NOT_FOUND "No such agent"
    AgentNotConfigured "agent_not_configured" CONFLICT "The session's agent is not configured on this node"
    CommandConflict "command_conflict" CONFLICT "The id was used for something else"
    MessageTooOld "message_too_old" CONFLICT "The id is older than what is remembered"
    TurnRunning "turn_running" CONFLICT "A turn runs"
    TurnNotRunning "turn_not_running" CONFLICT "The turn does not run"
    QueueFull "queue_full" TOO_MANY_REQUESTS "Too many messages wait in the session"
    MailboxFull "mailbox_full" TOO_MANY_REQUESTS "Too much waits in the session's mailbox"
    MessageNotFound "message_not_found" NOT_FOUND "No such message"
    MessageNotQueued "message_not_queued" CONFLICT "The message no longer waits"
    MessageCompacted "message_compacted" CONFLICT "The message was compacted away"
    ApprovalNotFound "approval_not_found" NOT_FOUND "No such approval"
    ApprovalDecided "approval_decided" CONFLICT "The approval was answered otherwise, or is over"
    CallNotFound "call_not_found" NOT_FOUND "No such call"
    CallNotWaiting "call_not_waiting" CONFLICT "The call does not wait for a result from here"
    CallBlocked "call_blocked" CONFLICT "Another call must end before this one can run"
    NothingToCompact "nothing_to_compact" CONFLICT "There is nothing to compact, or it is being done"
    ForkNotPossible "fork_not_possible" CONFLICT "The session cannot be forked there"
    BlobNotFound "blob_not_found" NOT_FOUND "No such blob"
    CursorAhead "cursor_ahead" CONFLICT "The cursor is beyond the session's last event"
    CommandTooLarge "command_too_large" PAYLOAD_TOO_LARGE "The request is too large to be recorded"
    TenantStreamsFull "tenant_streams_full" TOO_MANY_REQUESTS "The tenant follows too many sessions here"
    StreamsFull "streams_full" SERVICE_UNAVAILABLE "The node serves too many streams"
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE "The store cannot be read or written now"
    StoreFull "store_full" INSUFFICIENT_STORAGE "The store has no room left"
    OutcomeUnknown "outcome_unknown" SERVICE_UNAVAILABLE "Nobody knows whether it was done"
    Draining "draining" SERVICE_UNAVAILABLE "The node is shutting down"
    TimedOut "timed_out" SERVICE_UNAVAILABLE "It took too long"
    Internal "internal" INTERNAL_SERVER_ERROR "The server made a mistake"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_words() {
        let mut codes: Vec<_> = ErrorCode::ALL.iter().map(|error| error.code()).collect();
        for code in &codes {
            assert!(
                code.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{code}"
            );
        }
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }
}
