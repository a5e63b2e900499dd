use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::json;
use steadfast_core::content::Stored;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::{KEY, io, job, job_within};

fn bash(script: &str) -> CommandOptions {
    let mut options = CommandOptions::new("bash");
    options.args = vec!["-c".to_owned(), script.to_owned()];
    options
}

fn tool(options: CommandOptions) -> CommandTool {
    CommandTool::new(options).unwrap()
}

async fn outcome_of(script: &str) -> CallOutcome {
    tool(bash(script)).run(job(json!({ "id": 7 })), io()).await
}

fn done(output: impl Into<ToolOutput>) -> CallOutcome {
    CallOutcome::Done(output.into().into())
}

fn noted(output: impl Into<ToolOutput>, note: &str) -> CallOutcome {
    CallOutcome::Done(CallOutput {
        output: Stored::Inline(output.into()),
        model_view: None,
        note: Some(note.to_owned()),
    })
}

fn error(text: &str) -> CallOutcome {
    done(ToolOutput::error(text))
}

fn unknown(detail: &str) -> CallOutcome {
    CallOutcome::Unknown {
        detail: detail.to_owned(),
    }
}

fn error_json(value: Value) -> ToolOutput {
    ToolOutput::ErrorJson { value }
}

/// A listener to which a script connects with [`CONNECT`]: the connection ends when the last
/// process that has it open is gone.
async fn lifeline() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, format!("exec 3<>/dev/tcp/127.0.0.1/{port};"))
}

async fn connected(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// Waits until all processes that hold the connection are gone.
async fn all_gone(mut connection: TcpStream) {
    let mut byte = [0];
    let gone = tokio::time::timeout(Duration::from_secs(20), connection.read(&mut byte));
    assert_eq!(gone.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn the_exit_code_tells_results_from_errors_and_from_what_nobody_knows() {
    let killed = |status| unknown(&format!("the command was killed: {status}"));
    let cases = [
        ("cat", done(json!({ "id": 7 }))),
        ("echo hello; echo ignored >&2", done("hello")),
        ("echo 12", done(json!(12))),
        ("true", done("")),
        ("exit 3", error("exit code 3")),
        (
            "echo no such order >&2; exit 1",
            error("exit code 1\nno such order"),
        ),
        (
            "echo out; echo err >&2; exit 1",
            error("exit code 1\nout\nerr"),
        ),
        (
            "echo '{\"code\":1}'; echo err >&2; exit 1",
            noted(error_json(json!({ "code": 1 })), "exit code 1; err"),
        ),
        ("exit 128", error("exit code 128")),
        ("exit 160", error("exit code 160")),
        ("exit 255", error("exit code 255")),
        // What the shell ran was killed; the shell lived to say so.
        ("bash -c 'kill -9 $$'; exit $?", killed("exit status: 137")),
        ("kill -9 $$", killed("signal: 9 (SIGKILL)")),
        ("kill -TERM $$", killed("signal: 15 (SIGTERM)")),
    ];
    for (script, expected) in cases {
        assert_eq!(outcome_of(script).await, expected, "{script}");
    }
}

#[tokio::test]
async fn a_command_sees_its_call_and_no_environment_but_what_is_named() {
    let mut options = bash("env");
    options.env = BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]);
    options.env_passed = vec!["HOME".to_owned(), "NOT_SET_ANYWHERE".to_owned()];
    let mut job = job(json!({}));
    job.approval_reason = Some("käufer".to_owned());
    let CallOutcome::Done(output) = tool(options).run(job, io()).await else {
        panic!("no result");
    };
    let Stored::Inline(ToolOutput::Text { text }) = output.output else {
        panic!("no text");
    };
    let seen: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    let expected = [
        ("STEADFAST_KEY", KEY),
        ("STEADFAST_SESSION", "s1"),
        ("STEADFAST_TURN", "12"),
        ("STEADFAST_ATTEMPT", "2"),
        ("STEADFAST_EPOCH", "4"),
        ("STEADFAST_FENCE", "00000000000000000004-0000000002"),
        ("STEADFAST_APPROVAL_REASON", "käufer"),
        (
            "TRACEPARENT",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        ("TOKEN", "secret"),
    ];
    for (name, value) in expected {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
    // The shell adds three of its own.
    let known = ["HOME", "PATH", "PWD", "SHLVL", "_"];
    let known: BTreeSet<_> = known
        .into_iter()
        .chain(expected.map(|(name, _)| name))
        .collect();
    let odd: Vec<_> = seen.keys().filter(|name| !known.contains(*name)).collect();
    assert_eq!(odd, Vec::<&&str>::new());
}

#[tokio::test]
async fn a_large_input_and_output_pass_at_the_same_time() {
    let input = json!({ "text": "x".repeat(1 << 20) });
    let outcome = tool(bash("tee /dev/stderr"))
        .run(job(input.clone()), io())
        .await;
    assert_eq!(outcome, done(input.clone()));
    assert_eq!(
        tool(bash("exec <&-; echo 1")).run(job(input), io()).await,
        done(json!(1))
    );
}

#[tokio::test]
async fn output_beyond_its_bound_is_kept_in_part_if_it_ends() {
    let bounded = |script| {
        let mut options = bash(script);
        options.output_bytes_max = 100;
        tool(options)
    };
    let note = "the answer has 300 bytes, of which only the first 100 were kept";
    let outcome = bounded("head -c 300 /dev/zero | tr '\\0' 7")
        .run(job(json!({})), io())
        .await;
    assert_eq!(outcome, noted("7".repeat(100), note));
    assert_eq!(
        bounded("yes").run(job(json!({})), io()).await,
        unknown("the command wrote far more than its bound")
    );
    let stderr = "head -c 100000 /dev/zero | tr '\\0' 7 >&2; exit 1";
    let expected = format!("exit code 1\n{}", "7".repeat(8 * 1024));
    assert_eq!(
        bounded(stderr).run(job(json!({})), io()).await,
        error(&expected)
    );
}

#[tokio::test]
async fn a_cancelled_command_ends_with_its_whole_group() {
    let (listener, connect) = lifeline().await;
    let tool = tool(bash(&format!("{connect} sleep 1000 & wait")));
    let io = io();
    let cancelled = io.cancelled.clone();
    let (outcome, connection) = tokio::join!(tool.run(job(json!({})), io), async {
        let connection = connected(&listener).await;
        cancelled.cancel();
        connection
    });
    assert_eq!(outcome, unknown("cancelled while the command ran"));
    all_gone(connection).await;
}

#[tokio::test]
async fn a_command_may_end_by_itself_when_cancelled_but_its_outcome_is_unknown() {
    let (listener, connect) = lifeline().await;
    let script =
        format!("trap 'echo tidied >&3; exit 0' TERM; {connect} echo up >&3; sleep 1000 & wait");
    let tool = tool(bash(&script));
    let io = io();
    let cancelled = io.cancelled.clone();
    let (outcome, said) = tokio::join!(tool.run(job(json!({})), io), async {
        let mut connection = connected(&listener).await;
        let mut up = [0; 3];
        connection.read_exact(&mut up).await.unwrap();
        cancelled.cancel();
        let mut said = String::new();
        connection.read_to_string(&mut said).await.unwrap();
        said
    });
    assert_eq!(outcome, unknown("cancelled while the command ran"));
    assert_eq!(said, "tidied\n");
}

#[tokio::test]
async fn a_command_that_ignores_the_polite_signal_is_killed() {
    let (listener, connect) = lifeline().await;
    let script = format!("trap '' TERM; {connect} echo up >&3; sleep 1000 & wait");
    let cancelled = CancellationToken::new();
    let running = run(Run {
        command: tool(bash(&script)).prepared.command().0,
        has_lifeline: false,
        input: Vec::new(),
        remaining: Duration::from_secs(20),
        grace: Duration::from_millis(50),
        cancelled: &cancelled,
        output_bytes_max: 100,
    });
    let (ended, connection) = tokio::join!(running, async {
        let mut connection = connected(&listener).await;
        let mut up = [0; 3];
        connection.read_exact(&mut up).await.unwrap();
        cancelled.cancel();
        connection
    });
    assert!(matches!(ended, Err(NotEnded::Stopped(_))), "{ended:?}");
    all_gone(connection).await;
}

#[tokio::test]
async fn a_command_out_of_time_ends_with_its_whole_group() {
    let (listener, connect) = lifeline().await;
    let tool = tool(bash(&format!("{connect} sleep 1000 & wait")));
    let (outcome, connection) = tokio::join!(
        tool.run(job_within(json!({}), 1_000), io()),
        connected(&listener)
    );
    assert_eq!(outcome, unknown("the command ran out of time"));
    all_gone(connection).await;
}

#[tokio::test]
async fn a_dropped_call_kills_the_whole_group() {
    let (listener, connect) = lifeline().await;
    let script = format!("trap '' TERM; {connect} (trap '' TERM; sleep 1000) & wait");
    let tool = tool(bash(&script));
    let connection = tokio::select! {
        outcome = tool.run(job(json!({})), io()) => panic!("gave {outcome:?}"),
        connection = connected(&listener) => connection,
    };
    all_gone(connection).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_in_its_group_is_killed() {
    let (listener, connect) = lifeline().await;
    let script = format!("{connect} sleep 1000 & echo done");
    let (outcome, connection) = tokio::join!(outcome_of(&script), connected(&listener));
    assert_eq!(outcome, done("done"));
    all_gone(connection).await;
}

#[tokio::test]
async fn what_left_the_group_does_not_hold_up_the_answer() {
    let started = Instant::now();
    // It ends by itself soon after.
    assert_eq!(outcome_of("setsid sleep 4 & echo done").await, done("done"));
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_command_that_was_not_started_did_nothing() {
    let called_off = io();
    called_off.cancelled.cancel();
    let not_started = CallOutcome::Retry {
        detail: "it was called off before the command was started".to_owned(),
        retry_after_ms: None,
    };
    assert_eq!(
        tool(bash("true")).run(job(json!({})), called_off).await,
        not_started
    );
    assert_eq!(
        tool(bash("true")).run(job_within(json!({}), 0), io()).await,
        not_started
    );

    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tool = tool(CommandOptions::new(program.to_str().unwrap()));
    std::fs::remove_file(&program).unwrap();
    match tool.run(job(json!({})), io()).await {
        CallOutcome::Retry { detail, .. } => {
            assert!(
                detail.starts_with("the command cannot be started: "),
                "{detail}"
            );
        }
        other => panic!("gave {other:?}"),
    }
}

#[tokio::test]
async fn a_check_is_the_same_command_that_is_told_so() {
    let check = |script: &'static str| async move {
        let script = format!("test \"$STEADFAST_CHECK\" = 1 || exit 9; {script}");
        tool(bash(&script))
            .check(job_within(json!({ "id": 7 }), 2_000))
            .await
    };
    let answer = r#"read -r input; echo "{\"state\":\"done\",\"result\":$input}""#;
    assert_eq!(
        check(answer).await,
        CheckAnswer::Done(ToolOutput::from(json!({ "id": 7 })).into())
    );
    let not_done = r#"echo '{"state":"not_done"}'"#;
    assert_eq!(check(not_done).await, CheckAnswer::NotDone);
    for script in [
        r#"echo '{"state":"not_done"}'; exit 1"#,
        "echo done",
        "true",
        "sleep 1000",
    ] {
        assert_eq!(check(script).await, CheckAnswer::Unknown, "{script}");
    }
    assert_eq!(outcome_of("exit ${STEADFAST_CHECK:-0}").await, done(""));
}

#[test]
fn options_that_cannot_work_are_refused_and_secrets_stay_out_of_sight() {
    let with = |change: &dyn Fn(&mut CommandOptions)| {
        let mut options = bash("true");
        change(&mut options);
        CommandTool::new(options)
    };
    for program in [
        "no-such-program-anywhere",
        "/etc/passwd",
        "/etc",
        "./nothing",
        "",
    ] {
        let error = with(&|options| options.program = program.to_owned()).err();
        let program = program.to_owned();
        assert_eq!(error, Some(CommandToolError::ProgramNotFound { program }));
    }
    for name in [
        "STEADFAST_KEY",
        "STEADFAST__STORE__URL",
        "TRACEPARENT",
        "",
        "A=B",
    ] {
        let given =
            with(&|options| options.env = BTreeMap::from([(name.to_owned(), String::new())]));
        let passed = with(&|options| options.env_passed = vec![name.to_owned()]);
        for error in [given.err(), passed.err()] {
            assert!(
                matches!(error, Some(CommandToolError::Variable { .. })),
                "{name}: {error:?}"
            );
        }
    }
    let directory = std::path::PathBuf::from("/no/such/directory");
    assert_eq!(
        with(&|options| options.directory = Some(directory.clone())).err(),
        Some(CommandToolError::DirectoryNotFound {
            directory: directory.clone()
        })
    );
    assert_eq!(
        with(&|options| options.output_bytes_max = 0).err(),
        Some(CommandToolError::NoOutput)
    );
    let mut options = bash("secret");
    options.env = BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]);
    let shown = format!("{options:?} {:?}", tool(options.clone()));
    assert!(
        shown.contains("TOKEN") && !shown.contains("secret"),
        "{shown}"
    );
}
