//! Numbers that keep a Record within its size and a session within memory.

/// A Record's encoded size, at most.
pub const RECORD_BYTES_MAX: usize = 256 * 1024;
/// A part, input, result or text above this is a blob before `decide` sees it.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;
/// The inline parts of one input together, at most; the largest are made blobs until they fit.
pub const INPUT_INLINE_BYTES_MAX: usize = 128 * 1024;
/// Parts of one input, at most.
pub const PARTS_PER_INPUT_MAX: usize = 256;
/// Calls of one model reply, at most.
pub const CALLS_PER_REPLY_MAX: usize = 256;
/// Answers of one command, at most: each may be recorded with a triage and its words.
pub const ANSWERS_PER_COMMAND_MAX: usize = 64;
/// Reports of a session that wait to be delivered, at most; the oldest is given up for a new one.
pub const REPORTS_KEPT_MAX: usize = 32;
/// Calls that a report names, at most.
pub const CALLS_PER_REPORT_MAX: usize = 16;
/// What `decide` adds to each part or call of an input, at most.
pub const DECIDE_OVERHEAD_BYTES_MAX: usize = 512;
/// Command ids are remembered at least this long, and at least the newest [`RECEIPTS_KEPT_MIN`].
pub const RECEIPTS_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Command ids remembered whatever their age.
pub const RECEIPTS_KEPT_MIN: usize = 10_000;
/// Calls whose answer may still come after they were settled as in doubt, remembered at most.
pub const IN_DOUBT_KEPT_MAX: usize = 256;
/// Decided approvals remembered at most.
pub const APPROVALS_KEPT_MAX: usize = 1_000;
/// Crashes in a row without a settled call that a turn survives.
pub const CRASHES_IN_ROW_MAX: u32 = 3;
/// Crashes in one turn that it survives.
pub const CRASHES_IN_TURN_MAX: u32 = 9;
/// Wait before the second and the third recovery in a row, in milliseconds.
pub const CRASH_HOLD_MS: [u64; 2] = [5_000, 30_000];
/// Answers of one turn that do not fit the schema asked for and are asked for again.
pub const ANSWERS_REFUSED_MAX: u32 = 2;
/// Length of a reason, a note or an error message kept in an event, at most; longer ones are cut.
pub const DETAIL_BYTES_MAX: usize = 400;
