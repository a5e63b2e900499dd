//! The published chat client over the real routes: the tests are in `tests/chat`, written for Node.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_tests::http_server::{HttpServer, Request, Response};
use steadfast_tests::ledger::{Behaviour, Ledger};
use steadfast_tests::left_out;
use steadfast_tests::node_project::installed;
use steadfast_tests::product::Product;
use tokio::process::Command;
use tokio::sync::Mutex;

fn agents(ledger: &Ledger) -> String {
    let tool = |name: &str, more: &str| {
        format!(
            "[[agents.chat.tools]]\nname = {name:?}\ndescription = \"A tool\"\n{more}\n\
             http = {{ url = {:?} }}\n",
            ledger.tool_url(name)
        )
    };
    let look = "replay = \"keyed\"\ninput_schema = { type = \"object\", \
                properties = { at = { type = \"string\" } } }";
    let asking = "replay = \"keyed\"\napproval = \"user-approval\"";
    format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.chat]\nmodel = \"scripted/demo\"\n\
         {}{}{}{}\
         [[agents.chat.tools]]\nname = \"ask\"\ndescription = \"Asks the user\"\nclient = true\n",
        tool("look", look),
        tool("refund", asking),
        tool("poison", "replay = \"keyed\""),
        tool("slow", "replay = \"keyed\""),
    )
}

/// What the tests ask of us: the node's death, and what the tools got.
async fn control(request: Request, product: Arc<Mutex<Product>>, ledger: Arc<Ledger>) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/crash") => {
            product.lock().await.crash().await;
            Response::json(200, &Value::Null)
        }
        ("GET", "/ledger") => {
            let entries = ledger.entries();
            let entries = entries.iter().map(|entry| {
                let headers = entry.request.headers.iter().cloned();
                let headers: serde_json::Map<String, Value> = headers
                    .map(|(name, value)| (name, Value::String(value)))
                    .collect();
                json!({
                    "tool": entry.tool, "key": entry.key,
                    "input": entry.request.json(), "headers": headers,
                })
            });
            Response::json(200, &entries.collect())
        }
        _ => Response::json(404, &Value::Null),
    }
}

#[tokio::test]
async fn the_published_client_is_served() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("chat");
    let project = match installed(&source, "chat").await {
        Ok(project) => project,
        Err(why) => return left_out::say("the_published_client_is_served", &why),
    };
    let ledger = Arc::new(Ledger::start().await);
    let poison = json!({
        "a": [{ "__proto__": { "b": 1 } }], "constructor": { "prototype": 1 },
    });
    ledger.usually("slow", Behaviour::Silence);
    ledger.usually("poison", Behaviour::Answer(poison));
    let product = Product::start(&agents(&ledger)).await;
    let url = product.client().url("");
    let product = Arc::new(Mutex::new(product));
    let control = HttpServer::start({
        let (product, ledger) = (Arc::clone(&product), Arc::clone(&ledger));
        move |request| control(request, Arc::clone(&product), Arc::clone(&ledger))
    })
    .await;
    // One file after the other: one of them kills the node.
    let output = Command::new("node")
        .args(["--test", "--test-concurrency=1", "--test-reporter=tap"])
        .args(["people.test.js", "stream.test.js"])
        .current_dir(&project)
        .env("STEADFAST_URL", url)
        .env("STEADFAST_CONTROL", control.url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = shown(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\n# skipped 0\n"), "{text}");
}

#[tokio::test]
async fn the_example_page_builds_and_the_readme_shows_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join("deploy/examples/chat");
    let page = fs::read_to_string(source.join("src/chat.jsx")).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let shown_there = readme.split("```jsx\n").nth(1).unwrap();
    let shown_there = shown_there.split("```").next().unwrap();
    let unindented = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    let (page, excerpt) = (unindented(&page), unindented(shown_there));
    let found = page.windows(excerpt.len()).any(|lines| lines == excerpt);
    assert!(found, "the page has no such lines:\n{shown_there}");
    let project = match installed(&source, "chat-page").await {
        Ok(project) => project,
        Err(why) => {
            let test = "the_example_page_builds_and_the_readme_shows_it";
            return left_out::say(test, &why);
        }
    };
    let built = Command::new("npm")
        .args(["run", "build"])
        .current_dir(project)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(built.status.success(), "{}", shown(&built));
}

fn shown(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    format!("{out}{err}")
}
