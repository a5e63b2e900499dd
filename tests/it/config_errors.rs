//! Configurations that are wrong: what the user reads, word for word, and exit code 2.

use steadfast_tests::product::process::run;

/// Ends of a file that is right by itself.
const GOOD: &str = "[providers.p]\nkind = \"scripted\"\n[agents.a]\nmodel = \"p/m\"\n";

/// What stands before [`GOOD`], and what is said of it.
const CASES: &[(&str, &str)] = &[
    (
        "[node]\nlisen = \"127.0.0.1:1\"\n",
        r#"error: unknown key `lisen` in `node`
 --> node.toml:2:1
  |
2 | lisen = "127.0.0.1:1"
  | ^^^^^ did you mean `listen`?

1 configuration error
"#,
    ),
    (
        "[nod]\nlisten = \"127.0.0.1:1\"\n",
        r#"error: unknown key `nod` in the configuration
 --> node.toml:1:2
  |
1 | [nod]
  |  ^^^ did you mean `node`?

1 configuration error
"#,
    ),
    (
        "[node]\nlisten = 7070\n",
        r#"error: `node.listen`: expected text in quotes
 --> node.toml:2:10
  |
2 | listen = 7070
  |          ^^^^ found 7070

1 configuration error
"#,
    ),
    (
        "[node]\nlisten = \"somewhere\"\n",
        r#"error: `node.listen`: expected an IP address and a port, such as "127.0.0.1:7070"
 --> node.toml:2:10
  |
2 | listen = "somewhere"
  |          ^^^^^^^^^^^ found "somewhere"

1 configuration error
"#,
    ),
    (
        "[node]\nlisten = \"0.0.0.0:7070\"\n",
        r#"error: `node.listen`: without API keys anybody who reaches 0.0.0.0:7070 could run your agents
 --> node.toml:2:10
  |
2 | listen = "0.0.0.0:7070"
  |          ^^^^^^^^^^^^^^ not a loopback address
  |
  = help: add a section [[api.keys]], or listen on 127.0.0.1

1 configuration error
"#,
    ),
    (
        "[node]\ndrain_grace = \"20\"\n",
        r#"error: `node.drain_grace`: expected a length of time such as "30s" (units: ms, s, m, h, d)
 --> node.toml:2:15
  |
2 | drain_grace = "20"
  |               ^^^^ found the text "20"

1 configuration error
"#,
    ),
    (
        "[store]\nkind = \"nats\"\n[store.nats]\nurl = \"127.0.0.1\"\nmonitor_url = \"\"\nuser = \"x\"\n",
        r#"error: `store.nats.url`: expected addresses such as nats://127.0.0.1:4222
 --> node.toml:4:7
  |
4 | url = "127.0.0.1"
  |       ^^^^^^^^^^^ no such address

error: `store.nats.monitor_url`: without it nobody knows whether the broker syncs to disk
 --> node.toml:5:15
  |
5 | monitor_url = ""
  |               ^^
  |
  = help: give the address of each server's monitoring page, or set store.require_fsync = false

error: `store.nats.user`: `store.nats.password` is missing beside it
 --> node.toml:6:1
  |
6 | user = "x"
  | ^^^^

3 configuration errors
"#,
    ),
    (
        "[store]\nrequire_fsync = \"yes\"\n",
        r#"error: `store.require_fsync`: expected true or false
 --> node.toml:2:17
  |
2 | require_fsync = "yes"
  |                 ^^^^^ found the text "yes"

1 configuration error
"#,
    ),
    (
        "[api]\nbody_bytes_max = -1\n",
        r#"error: `api.body_bytes_max`: expected a whole number of at least 1024
 --> node.toml:2:18
  |
2 | body_bytes_max = -1
  |                  ^^ found -1

1 configuration error
"#,
    ),
    (
        "[providers.q]\nkind = \"antropic\"\n",
        r#"error: `providers.q.kind`: expected one of anthropic, openai-chat, openai-responses, scripted
 --> node.toml:2:8
  |
2 | kind = "antropic"
  |        ^^^^^^^^^^ did you mean `anthropic`?

1 configuration error
"#,
    ),
    (
        "[providers.q]\nkind = \"anthropic\"\napi_key = \"sk-secret\"\n",
        r#"error: `providers.q.api_key`: a secret is never written into the configuration
 --> node.toml:3:11
  |
3 | api_key = "*********"
  |           ^^^^^^^^^^^ a literal secret
  |
  = help: use `env:NAME` (an environment variable) or `file:PATH` (a file)

1 configuration error
"#,
    ),
    (
        "[agents.b]\nmodel = \"q/m\"\n",
        r#"error: `agents.b.model`: no provider `q` is configured
 --> node.toml:2:9
  |
2 | model = "q/m"
  |         ^^^^^
  |
  = help: add a section [providers.q]

1 configuration error
"#,
    ),
    (
        "[agents.b]\nmodel = \"p\"\n",
        r#"error: `agents.b.model`: expected text of the form "provider/model"
 --> node.toml:2:9
  |
2 | model = "p"
  |         ^^^ found the text "p"

1 configuration error
"#,
    ),
    (
        "[agents.b]\n",
        r#"error: `agents.b`: `model` is missing
 --> node.toml:1:9
  |
1 | [agents.b]
  |         ^ needs `model`
  |
  = help: `model`: `PROVIDER/MODEL`: a section of `[providers]`, and that provider's own name of the model.

1 configuration error
"#,
    ),
    (
        "[agents.b]\nmodel = \"p/m\"\n[[agents.b.tools]]\nname = \"t\"\ndescription = \"d\"\n",
        r#"error: `agents.b.tools[0]`: tool `t`: nothing runs it
 --> node.toml:3:1
  |
3 | [[agents.b.tools]]
  | ^^^^^^^^^^^^^^^^^^
  |
  = help: give it exactly one of http = { url = ... }, command = { program = ... }, agent = "NAME", client = true, remote = true; remote = true also goes with http or command

1 configuration error
"#,
    ),
    (
        "[node\n",
        r#"error: `node.toml` is not TOML: unclosed table, expected `]`
 --> node.toml:1:6
  |
1 | [node
  |      ^

1 configuration error
"#,
    ),
    (
        "node = 5\n",
        r#"error: `node`: expected a table
 --> node.toml:1:8
  |
1 | node = 5
  |        ^ found 5

1 configuration error
"#,
    ),
];

#[tokio::test]
async fn a_wrong_configuration_is_told_with_its_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    let path = file.to_str().unwrap();
    let mut wrong = Vec::new();
    for (wrong_part, says) in CASES {
        // Wrong lines come first, so that their numbers are plain to see.
        std::fs::write(&file, format!("{wrong_part}{GOOD}")).unwrap();
        let output = run(["serve", "--config", path]).await;
        let text = String::from_utf8(output.stderr)
            .unwrap()
            .replace(path, "node.toml");
        assert_eq!(output.status.code(), Some(2), "{wrong_part}\n{text}");
        if text != *says {
            wrong.push(format!("{wrong_part}--- says:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n=====\n"));
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_with_its_path() {
    let output = run(["serve", "--config", "/no/such/node.toml"]).await;
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("/no/such/node.toml"), "{text}");
    assert!(text.contains("--config"), "{text}");
}
