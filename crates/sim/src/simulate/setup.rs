//! What a run is made of.

use std::time::Duration;

use steadfast_core::input::Durability;
use steadfast_core::limits::RECORD_BYTES_MAX;
use steadfast_runtime::Options;
use steadfast_store::fault::Odds;

/// The size and the roughness of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Nodes that share the store; a single one has it for itself.
    pub nodes: u64,
    /// Sessions, each with its own client.
    pub sessions: u64,
    /// What each client does before it only waits for the end.
    pub actions: u64,
    /// Which effects may run ahead; `None`: drawn.
    pub durability: Option<Durability>,
    /// The store fails now and then.
    pub faults: bool,
    /// So often something befalls a node, at most.
    pub crashes_max: u64,
    /// What.
    pub troubles: Troubles,
    /// A client waits up to so long before each action, in milliseconds; now and then ten times as
    /// long.
    pub pause_ms: u64,
    /// What befalls nodes that share a store beside that: elections, appends of others in flight,
    /// doors that are not known, writes of dead nodes that land, clients that leave, nodes that do
    /// not drive.
    pub wide: bool,
    /// Of a thousand writes so many land later than they are waited for.
    pub late_permille: u32,
    /// Remote tools, and workers that are killed, stand still and are cut off.
    pub remote: bool,
    /// A bug that is put back.
    pub mistake: Option<Mistake>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            nodes: 1,
            sessions: 2,
            actions: 8,
            durability: None,
            faults: true,
            crashes_max: 3,
            troubles: Troubles::Any,
            pause_ms: 2_000,
            wide: false,
            late_permille: Odds::ROUGH.ghost_permille,
            remote: false,
            mistake: None,
        }
    }
}

impl Setup {
    /// Several nodes on one store.
    pub fn cluster(nodes: u64) -> Self {
        Self {
            nodes,
            wide: nodes > 1,
            remote: nodes > 1,
            ..Self::default()
        }
    }

    /// What a seed of many runs: one node, two or three.
    pub fn of_seed(seed: u64) -> Self {
        Self::cluster(match seed % 4 {
            0 => 2,
            1 => 3,
            _ => 1,
        })
    }
}

/// What befalls nodes, where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Troubles {
    /// They are killed, stand still, are cut off, and stop.
    Any,
    /// They are killed.
    Kills,
    /// They stop in good order.
    Stops,
}

/// A bug of what surrounds the core, put back to prove that a run would find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The log takes an append whatever stands at its tail.
    AppendWithoutFence,
    /// A Record may have any size.
    RecordWithoutSizeCap,
    /// The log acknowledges a Record that it does not keep.
    AckWithoutRecord,
    /// The mailbox forgets a letter that it acknowledged.
    LostMail,
    /// Reads of the log are in another order than its Records.
    ReadOutOfOrder,
    /// The index of owned sessions forgets its entries, so that no sweep finds them.
    IndexForgets,
    /// Timers never fire.
    TimersAsleep,
    /// The runtime is told that an outcome which was lost was a failure.
    UnknownToldAsFailed,
    /// Mail is removed when it is read, before its decision is in the log.
    MailRemovedWhenRead,
    /// An owner that lets go of unfinished work wakes nobody.
    ReleaseLosesWakeUp,
    /// Mail is removed when the queue gives it out, before its decision is in the log.
    MailRemovedAtDelivery,
    /// Records of a replica that is behind are taken for the whole log.
    StaleReadTaken,
    /// The index names a session some time after it is owned.
    IndexWrittenLate,
    /// An entry of the index is removed though it was written anew.
    EntryRemovedByName,
    /// A session has one timer, and who sets it last may be an owner of before.
    OldTimerReplacesNewer,
    /// A remote job that must not run twice runs without its claim.
    JobRunsWithoutClaim,
    /// Silence counts while nobody can be heard.
    SuspectsDuringElection,
    /// A node that lets go of its sessions cuts off what runs in them.
    LettingGoCutsCalls,
}

impl Mistake {
    /// Those that one node makes.
    pub const ALL: [Self; 8] = [
        Self::AppendWithoutFence,
        Self::RecordWithoutSizeCap,
        Self::AckWithoutRecord,
        Self::LostMail,
        Self::ReadOutOfOrder,
        Self::IndexForgets,
        Self::TimersAsleep,
        Self::UnknownToldAsFailed,
    ];

    /// Those that show when several nodes share a store.
    pub const OF_CLUSTERS: [Self; 10] = [
        Self::MailRemovedWhenRead,
        Self::ReleaseLosesWakeUp,
        Self::MailRemovedAtDelivery,
        Self::StaleReadTaken,
        Self::IndexWrittenLate,
        Self::EntryRemovedByName,
        Self::OldTimerReplacesNewer,
        Self::JobRunsWithoutClaim,
        Self::SuspectsDuringElection,
        Self::LettingGoCutsCalls,
    ];
}

/// Limits that make much happen in little time; `cramped`: one session in memory at a time, so that
/// commands to the others go through their mailboxes.
pub(super) fn options(setup: &Setup, cramped: bool, drives: bool) -> Options {
    let uncapped = setup.mistake == Some(Mistake::RecordWithoutSizeCap);
    let drain_grace = match setup.mistake {
        Some(Mistake::LettingGoCutsCalls) => Duration::ZERO,
        _ => Options::default().drain_grace,
    };
    Options {
        drain_grace,
        actors_max: if cramped {
            1
        } else {
            Options::default().actors_max
        },
        record_bytes_max: if uncapped {
            usize::MAX
        } else {
            RECORD_BYTES_MAX
        },
        drives,
        // Remote tools are run by workers that do nothing else.
        works: false,
        handover_after: Duration::from_secs(8),
        idle_after: Duration::from_secs(2),
        // Waits of runs are short: with none of it every one that outlasts its owner has a timer.
        due_soon: match setup.nodes {
            1 | 2 => Duration::ZERO,
            _ => Options::default().due_soon,
        },
        sweep_every: Duration::from_secs(5),
        snapshot_records: 6,
        snapshot_at_release_records_min: 2,
        ..Options::default()
    }
}
