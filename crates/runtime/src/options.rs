//! Limits of a runtime, each with its default.

use std::time::Duration;

use steadfast_core::id::{NodeId, Timestamp};
use steadfast_core::input::instant;
use steadfast_core::session::Session;
use steadfast_tools::worker::Executor;

use crate::remote::WorkerOptions;
use crate::webhook::WebhookOptions;

/// Limits of one node's runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Sessions that are in memory at the same time, at most; above it commands are answered
    /// "unavailable" and mail and timers wait.
    pub actors_max: usize,
    /// Sessions in memory above which an idle one is let go after [`Options::idle_after_pressed`]: by
    /// default, half a gigabyte of short ones.
    pub actors_relaxed_max: usize,
    /// How long an idle session stays in memory.
    pub idle_after: Duration,
    /// The same when many are in memory.
    pub idle_after_pressed: Duration,
    /// A wait that ends within this time keeps its session in memory, or brings it there. Only an
    /// owner waits in the session's own time: a timer is of the broker's, and the session may be
    /// ahead of that by as much as an owner's clock was, so that a wait of a second would last as
    /// long.
    pub due_soon: Duration,
    /// Commands that wait at one session's door, at most; more wait at the sender.
    pub door_commands_max: usize,
    /// How long a client waits for the decision about its command.
    pub admission_patience: Duration,
    /// How long an append whose outcome is not known is repeated before the owner gives up.
    pub append_patience: Duration,
    /// Wait before the first repetition of a failed append; doubled each time.
    pub append_retry_min: Duration,
    /// Longest wait between repetitions of an append, and of other writes.
    pub append_retry_max: Duration,
    /// How long a cancelled effect may take to stop by itself.
    pub cancel_grace: Duration,
    /// How long running effects may go on when the node lets go of its sessions.
    pub drain_grace: Duration,
    /// Sessions that a node that stops hands over at the same time.
    pub handovers_max: usize,
    /// How long it waits for another node to take one; when none takes any for this long, it lets
    /// go of all.
    pub handover_patience: Duration,
    /// Sessions that are opened at the same time because of mail, and as many because of timers.
    pub activations_max: usize,
    /// Deliveries of mail that are worked on at the same time; further ones are given back.
    pub deliveries_max: usize,
    /// How long mail waits for room to open its session before it is given back.
    pub room_patience: Duration,
    /// How long mail is given back for when this node has no room for its session, or when its
    /// owner does not answer.
    pub mail_delay: Duration,
    /// Longest such time; it is doubled with each delivery.
    pub mail_delay_max: Duration,
    /// How long an owner elsewhere may take to work off mail before it is asked again.
    pub owner_patience: Duration,
    /// How often this node renews its lease.
    pub lease_every: Duration,
    /// How long a node must be silent before its door is tried.
    pub suspect_after: Duration,
    /// How long a door may take to answer whether anybody is there.
    pub door_patience: Duration,
    /// Whether this node takes commands of clients, and may begin the turns that they ask for.
    pub admits: bool,
    /// Whether this node takes sessions from the queue, from timers and from dead nodes.
    pub drives: bool,
    /// Whether this node runs remote tools of its agents out of the tool queue.
    pub works: bool,
    /// On a node that does not drive, how long it keeps a session before it lets go at a safe point;
    /// with none it owns no session at all.
    pub handover_after: Duration,
    /// The process that this one replaces: taken for dead at once, unless its door answers.
    pub predecessor: Option<NodeId>,
    /// A follower of an open turn that hears nothing for this long looks at the log.
    pub follower_look_every: Duration,
    /// Letters read from a mailbox at once.
    pub mail_batch_max: usize,
    /// A Record is closed before it grows above this many bytes; above
    /// [`RECORD_BYTES_MAX`](steadfast_core::limits::RECORD_BYTES_MAX) other stores may refuse it.
    pub record_bytes_max: usize,
    /// Records after which a snapshot is written.
    pub snapshot_records: u64,
    /// Records since the last snapshot below which none is written when a session is let go.
    pub snapshot_at_release_records_min: u64,
    /// A changed session is shown in lists after this; changes within it are shown together.
    pub directory_delay: Duration,
    /// How often the index of owned sessions is searched for those of dead nodes, with jitter.
    pub sweep_every: Duration,
    /// Wake-up letters that a sweep sends at the same time.
    pub sweep_letters_max: usize,
    /// Wait before a session whose actor failed is opened again; doubled each time.
    pub failed_rest_min: Duration,
    /// Longest such wait.
    pub failed_rest_max: Duration,
    /// Wait before an effect is started again whose outcome changed nothing.
    pub futile_rest: Duration,
    /// Bytes of the open step's live frames that are kept for followers who come late.
    pub open_step_bytes_max: usize,
    /// Memory for the histories of last requests, kept for the next one, of all sessions; when it
    /// is full, a request's history is built anew from its session.
    pub kept_history_bytes_max: usize,
    /// Records read from the log at once.
    pub read_batch_records: usize,
    /// Whether an epoch is at least the Unix second of its activation. Needed where the store may
    /// lose acknowledged Records, so that an epoch never comes twice.
    pub epoch_from_clock: bool,
    /// Tool calls that run at the same time.
    pub pools: PoolOptions,
    /// Jobs of remote tools.
    pub worker: WorkerOptions,
    /// Sessions of sub-agents that stand above one another, at most.
    pub agent_depth_max: u32,
    /// Who is told what becomes of turns, of agents whose policy has reports.
    pub webhook: Option<WebhookOptions>,
}

impl Options {
    /// Whether this node may ever own a session.
    pub(crate) fn may_own(&self) -> bool {
        self.drives || (self.admits && !self.handover_after.is_zero())
    }

    /// Whether a time is near, or past, for a session.
    pub(crate) fn is_due_soon(&self, session: &Session, at: Timestamp, now: Timestamp) -> bool {
        let soon_ms = u64::try_from(self.due_soon.as_millis()).unwrap_or(u64::MAX);
        at <= instant(now, session.at).plus_ms(soon_ms)
    }
}

/// How many tool calls run at the same time on a node, over all sessions; what does not fit waits,
/// fairly between sessions. Each tool has a bound of its own beside these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Calls of asynchronous Rust functions.
    pub functions_max: usize,
    /// Calls of blocking Rust functions, each a thread.
    pub blocking_max: usize,
    /// Calls of HTTP endpoints.
    pub http_max: usize,
    /// Calls of commands, each a process.
    pub commands_max: usize,
    /// Calls of tools of MCP servers.
    pub mcp_max: usize,
    /// Threads for asynchronous Rust functions, apart from those that drive sessions and stores: a
    /// function that blocks its thread, against its promise, then holds up other functions and
    /// nothing else. 0: they run on the threads of the runtime that started this one.
    pub function_threads: usize,
}

impl PoolOptions {
    /// Places of a pool.
    pub(crate) fn places_of(&self, executor: Executor) -> usize {
        match executor {
            Executor::Function => self.functions_max,
            Executor::Blocking => self.blocking_max,
            Executor::Http => self.http_max,
            Executor::Command => self.commands_max,
            Executor::Mcp => self.mcp_max,
        }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            functions_max: 4_096,
            blocking_max: 64,
            http_max: 1_024,
            commands_max: 64,
            mcp_max: 1_024,
            function_threads: 0,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            actors_max: 100_000,
            actors_relaxed_max: 32_000,
            idle_after: Duration::from_secs(60),
            idle_after_pressed: Duration::from_secs(1),
            due_soon: Duration::from_secs(60),
            door_commands_max: 64,
            admission_patience: Duration::from_secs(5),
            append_patience: Duration::from_secs(60),
            append_retry_min: Duration::from_millis(50),
            append_retry_max: Duration::from_secs(2),
            cancel_grace: Duration::from_secs(5),
            drain_grace: Duration::from_secs(60),
            handovers_max: 16,
            handover_patience: Duration::from_secs(2),
            activations_max: 64,
            deliveries_max: 1_024,
            room_patience: Duration::from_secs(3),
            mail_delay: Duration::from_secs(1),
            mail_delay_max: Duration::from_secs(10),
            owner_patience: Duration::from_secs(5),
            lease_every: Duration::from_secs(1),
            suspect_after: Duration::from_secs(3),
            door_patience: Duration::from_secs(1),
            admits: true,
            drives: true,
            works: true,
            handover_after: Duration::from_secs(60),
            predecessor: None,
            follower_look_every: Duration::from_secs(5),
            mail_batch_max: 64,
            record_bytes_max: steadfast_core::limits::RECORD_BYTES_MAX,
            snapshot_records: 64,
            snapshot_at_release_records_min: 8,
            directory_delay: Duration::from_millis(250),
            sweep_every: Duration::from_secs(2),
            sweep_letters_max: 16,
            failed_rest_min: Duration::from_secs(1),
            failed_rest_max: Duration::from_secs(60),
            futile_rest: Duration::from_secs(1),
            open_step_bytes_max: 4 << 20,
            kept_history_bytes_max: 256 << 20,
            read_batch_records: 64,
            epoch_from_clock: false,
            pools: PoolOptions::default(),
            worker: WorkerOptions::default(),
            agent_depth_max: 4,
            webhook: None,
        }
    }
}
