//! Approvals: every status of a tool, every state in which an answer finds the call, every answer,
//! and a crash at every step of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::command::{Command, CommandBody};
use steadfast_core::event::{Rejection, Settlement, Verdict};
use steadfast_core::id::ApprovalId;
use steadfast_core::input::{Policy, ReplayRule};
use steadfast_core::receipt::End;
use steadfast_core::session::Session;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_runtime::sessions::Admission;
use steadfast_tools::catalog::Catalog;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::spec::Approval;
use tokio::time::sleep;

use crate::world::{Fault, Ledger, Node, World, agents, calls, command, key, script, tool};

const EXPIRES: Duration = Duration::from_secs(3_600);

/// In which state the answer finds the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits, in memory.
    InMemory,
    /// It waits, and its session was let go.
    LetGo,
    /// It waited too long.
    Expired,
    /// Its turn was cancelled.
    Cancelled,
    /// Another message came instead.
    Superseded,
}

/// Where the node dies, or the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    CrashBefore,
    /// The answer's Record is not written before the node dies.
    CrashWithoutRecord,
    /// It is, and nobody was told.
    CrashWithRecord,
    /// The store loses its acknowledgement.
    AcknowledgementLost,
    /// The node dies while the tool runs.
    CrashInTool,
}

const PHASES: [Phase; 5] = [
    Phase::InMemory,
    Phase::LetGo,
    Phase::Expired,
    Phase::Cancelled,
    Phase::Superseded,
];
const TROUBLES: [Trouble; 6] = [
    Trouble::None,
    Trouble::CrashBefore,
    Trouble::CrashWithoutRecord,
    Trouble::CrashWithRecord,
    Trouble::AcknowledgementLost,
    Trouble::CrashInTool,
];

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    settlement: Settlement,
    runs: usize,
    end: End,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    rule: ReplayRule,
    phase: Phase,
    approved: bool,
    trouble: Trouble,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for rule in [ReplayRule::Never, ReplayRule::Safe] {
            for (phase, approved) in PHASES
                .into_iter()
                .flat_map(|phase| [(phase, true), (phase, false)])
            {
                let cell = |trouble| Self {
                    rule,
                    phase,
                    approved,
                    trouble,
                };
                cells.extend(TROUBLES.map(cell));
            }
        }
        cells.retain(Self::can_be);
        cells
    }

    fn waits(&self) -> bool {
        matches!(self.phase, Phase::InMemory | Phase::LetGo)
    }

    /// A refused answer writes no Record, and a tool that does not run cannot be cut off.
    fn can_be(&self) -> bool {
        match self.trouble {
            Trouble::None | Trouble::CrashBefore => true,
            Trouble::CrashWithoutRecord
            | Trouble::CrashWithRecord
            | Trouble::AcknowledgementLost => self.waits(),
            Trouble::CrashInTool => self.waits() && self.approved,
        }
    }

    fn expected(&self) -> Outcome {
        let late = |settlement, end| Outcome {
            verdict: Verdict::Rejected {
                reason: Rejection::ApprovalDecided,
            },
            settlement,
            runs: 0,
            end,
        };
        let decided = |settlement, runs| Outcome {
            verdict: Verdict::Done,
            settlement,
            runs,
            end: End::Completed,
        };
        match self.phase {
            Phase::Expired => return late(Settlement::Expired, End::Completed),
            Phase::Cancelled => return late(Settlement::Cancelled, End::Cancelled),
            Phase::Superseded => return late(Settlement::Superseded, End::Completed),
            Phase::InMemory | Phase::LetGo => {}
        }
        match (self.approved, self.trouble, self.rule) {
            (false, ..) => decided(Settlement::Denied, 0),
            // The log says that it may run, and nobody can say that it did not.
            (true, Trouble::CrashWithRecord, ReplayRule::Never) => decided(Settlement::InDoubt, 0),
            (true, Trouble::CrashInTool, ReplayRule::Never) => decided(Settlement::InDoubt, 1),
            (true, Trouble::CrashInTool, _) => decided(Settlement::Done, 2),
            (true, ..) => decided(Settlement::Done, 1),
        }
    }

    async fn outcome(&self) -> Outcome {
        let hold = Arc::new(AtomicBool::new(self.trouble == Trouble::CrashInTool));
        let rule = self.rule;
        let world =
            World::with_tools(|builder, ledger| builder.with(guarded(ledger, &hold).replay(rule)));
        let mut node = world.start().await;
        node.send(&key("s"), "m1", &calls(&["guarded"])).await;
        let approval = node.until(&key("s"), waiting).await[0];
        self.reach(&node).await;
        if self.trouble == Trouble::CrashBefore {
            node = again(&world, node).await;
        }
        let command = answer("a1", approval, self.approved);
        let verdict = match self.trouble {
            Trouble::CrashWithoutRecord => {
                node = cut_off(&world, node, &command, Fault::HangsBefore).await;
                decide(&node, &command).await
            }
            Trouble::CrashWithRecord => {
                node = cut_off(&world, node, &command, Fault::HangsAfter).await;
                decide(&node, &command).await
            }
            Trouble::AcknowledgementLost => {
                world.log.fail(1, Fault::LostAcknowledgement);
                decide(&node, &command).await
            }
            Trouble::CrashInTool => {
                let verdict = decide(&node, &command).await;
                world.ledger.hanging.notified().await;
                hold.store(false, Ordering::Relaxed);
                node = again(&world, node).await;
                verdict
            }
            Trouble::None | Trouble::CrashBefore => decide(&node, &command).await,
        };
        let end = node.end_of(&key("s"), "m1").await;
        self.check_later_answers(&node, approval, verdict).await;
        let settlements = world.settlements("s").await;
        assert_eq!(settlements.len(), 1, "{self:?}: {settlements:?}");
        Outcome {
            verdict,
            settlement: settlements[0],
            runs: world.ledger.count("guarded"),
            end,
        }
    }

    async fn reach(&self, node: &Node) {
        match self.phase {
            Phase::InMemory => {}
            Phase::LetGo => node.until_gone().await,
            Phase::Expired => {
                sleep(EXPIRES).await;
                assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
            }
            Phase::Cancelled => {
                let cancel = command("c1", CommandBody::Cancel { turn: None });
                node.sessions.admit(&key("s"), cancel).await.unwrap();
            }
            Phase::Superseded => {
                node.send(&key("s"), "m2", "hello").await;
                assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
            }
        }
    }

    /// The same answer again is the first one's, whatever its id; another is refused.
    async fn check_later_answers(&self, node: &Node, approval: ApprovalId, first: Verdict) {
        let later = [
            (answer("a1", approval, self.approved), first),
            (answer("a2", approval, self.approved), first),
            (
                answer("a3", approval, !self.approved),
                Verdict::Rejected {
                    reason: Rejection::ApprovalDecided,
                },
            ),
        ];
        for (command, expected) in later {
            let id = command.id.clone();
            assert_eq!(decide(node, &command).await, expected, "{self:?}: {id}");
        }
    }
}

/// A tool that a person must agree to; the first call hangs if `hold` says so.
fn guarded(ledger: &Arc<Ledger>, hold: &Arc<AtomicBool>) -> ToolDefinition {
    let (ledger, hold) = (Arc::clone(ledger), Arc::clone(hold));
    let tool = tool("guarded", move |_, _| {
        ledger.write("guarded");
        let (ledger, hold) = (Arc::clone(&ledger), Arc::clone(&hold));
        async move {
            if hold.load(Ordering::Relaxed) {
                ledger.hanging.notify_one();
                std::future::pending::<()>().await;
            }
            Ok("done".to_owned())
        }
    });
    tool.approval(Approval::UserApproval)
        .approval_expires(EXPIRES)
}

/// The approvals that are waited for, once there are any.
fn waiting(session: &Session) -> Option<Vec<ApprovalId>> {
    let open = session.turn.as_ref()?.calls.iter();
    let waiting: Vec<ApprovalId> = open
        .filter(|call| call.waits_for_people())
        .map(|call| ApprovalId(call.id))
        .collect();
    (!waiting.is_empty()).then_some(waiting)
}

fn answer(id: &str, approval: ApprovalId, approved: bool) -> Command {
    let body = CommandBody::DecideApproval {
        approval,
        approved,
        reason: Some("because".into()),
        triage: None,
    };
    command(id, body)
}

async fn decide(node: &Node, command: &Command) -> Verdict {
    match node.sessions.admit(&key("s"), command.clone()).await {
        Ok(Admission::Decided { verdict, .. }) => verdict,
        other => panic!("{other:?}"),
    }
}

async fn again(world: &World, node: Node) -> Node {
    node.crash().await;
    world.start().await
}

/// The node dies while it appends the Record of a command.
async fn cut_off(world: &World, node: Node, command: &Command, fault: Fault) -> Node {
    world.log.fail(1, fault);
    let (sessions, command) = (node.sessions.clone(), command.clone());
    let asking = tokio::spawn(async move { sessions.admit(&key("s"), command).await });
    world.log.hung.notified().await;
    let node = again(world, node).await;
    asking.abort();
    node
}

#[tokio::test(start_paused = true)]
async fn every_answer_in_every_state_with_every_crash_ends_as_promised() {
    let cells = Cell::all();
    assert_eq!(cells.len(), 68);
    for cell in cells {
        assert_eq!(cell.outcome().await, cell.expected(), "{cell:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tools_status_says_who_is_asked() {
    let cases = [
        (Approval::NotApplicable, Some((Settlement::Done, 1))),
        (Approval::Approved, Some((Settlement::Done, 1))),
        (Approval::Denied, Some((Settlement::Refused, 0))),
        (Approval::UserApproval, None),
    ];
    for (status, expected) in cases {
        let hold = Arc::default();
        let world = World::with_tools(|builder, ledger| {
            builder.with(guarded(ledger, &hold).approval(status))
        });
        let node = world.start().await;
        node.send(&key("s"), "m1", &calls(&["guarded"])).await;
        match expected {
            Some((settlement, runs)) => {
                assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
                assert_eq!(world.settlements("s").await, [settlement], "{status:?}");
                assert_eq!(world.ledger.count("guarded"), runs, "{status:?}");
            }
            None => assert_eq!(node.until(&key("s"), waiting).await.len(), 1),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_step_are_decided_each_by_itself() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let hold = Arc::default();
        let world = World::with_tools(|builder, ledger| builder.with(guarded(ledger, &hold)));
        let mut node = world.start().await;
        node.send(&key("s"), "m1", &calls(&["guarded"; 3])).await;
        let approvals = node.until(&key("s"), waiting).await;
        // The first and the last may run. The node dies between the answers.
        for index in order {
            let command = answer(&format!("a{index}"), approvals[index], index != 1);
            assert_eq!(decide(&node, &command).await, Verdict::Done);
            sleep(Duration::from_secs(1)).await;
            node = again(&world, node).await;
        }
        assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
        let mut settlements = world.settlements("s").await;
        settlements.sort_unstable();
        let expected = [Settlement::Done, Settlement::Done, Settlement::Denied];
        assert_eq!(settlements, expected, "{order:?}");
        assert_eq!(world.ledger.count("guarded"), 2, "{order:?}");
    }
}

/// Small sums need nobody, large ones a person, and very large ones are never paid.
fn pay(ledger: &Arc<Ledger>, denied_from: i64) -> ToolDefinition {
    let ledger = Arc::clone(ledger);
    let tool = tool("pay", move |input: Value, _| {
        ledger.write(format!("paid {}", input["sum"]));
        async { Ok("paid".to_owned()) }
    });
    tool.approval_policy(move |input| match input["sum"].as_i64() {
        Some(sum) if sum < 100 => Approval::NotApplicable,
        Some(sum) if sum < denied_from => Approval::UserApproval,
        _ => Approval::Denied,
    })
}

fn pay_each(sums: &[i64]) -> String {
    let tools: Vec<Value> = sums
        .iter()
        .map(|sum| json!({ "tool": "pay", "input": { "sum": sum } }))
        .collect();
    script(json!([{ "tools": tools }, { "text": "done" }]))
}

#[tokio::test(start_paused = true)]
async fn a_policy_decides_over_the_input() {
    let world = World::with_tools(|builder, ledger| builder.with(pay(ledger, 1_000)));
    let node = world.start().await;
    node.send(&key("s"), "m1", &pay_each(&[10, 500, 5_000]))
        .await;
    let approvals = node.until(&key("s"), waiting).await;
    assert_eq!(approvals.len(), 1);
    let command = answer("a1", approvals[0], true);
    assert_eq!(decide(&node, &command).await, Verdict::Done);
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["paid 10", "paid 500"]);
}

#[tokio::test(start_paused = true)]
async fn a_yes_does_not_outweigh_a_policy_that_became_stricter() {
    let mut world = World::with_tools(|builder, ledger| builder.with(pay(ledger, 1_000)));
    let node = world.start().await;
    node.send(&key("s"), "m1", &pay_each(&[500])).await;
    let approvals = node.until(&key("s"), waiting).await;
    let stricter = Catalog::builder().with(pay(&world.ledger, 200));
    world.agents = agents(
        Arc::new(ScriptedProvider::new()),
        stricter.build().unwrap(),
        Policy::default(),
    );
    let node = again(&world, node).await;
    let command = answer("a1", approvals[0], true);
    assert_eq!(decide(&node, &command).await, Verdict::Done);
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Refused]);
    assert_eq!(world.ledger.lines(), [""; 0]);
}
