use std::io::Write;

use insta::assert_snapshot;
use steadfast_core::input::Policy;

use super::*;

/// A minimal configuration that loads.
const SMALL: &str = "[providers.p]\nkind = \"scripted\"\n[agents.a]\nmodel = \"p/m\"\n";

fn load(text: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Config, ConfigError> {
    let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    Config::load(&Sources {
        base: Some(("node.toml".to_owned(), text.to_owned())),
        environment: environment.iter().map(owned).collect(),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
    })
}

fn error(text: &str) -> String {
    load(text, &[], &[]).unwrap_err().to_string()
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let text = r#"
[node]
lisen = "127.0.0.1:1"
drain_grace = 20

[store]
kind = "nat"

[providers.anthropic]
kind = "antropic"
api_key = "sk-live-0123456789"

[agents.support]
modell = "anthropic/claude"
harness = "codex"
max_steps = 0
mcp = { docs = { ulr = "http://x" } }
"#;
    let error = error(text);
    assert!(!error.contains("sk-live"));
    assert_snapshot!(error);
}

#[test]
fn rules_are_told_at_once_with_their_place() {
    let text = r#"
[node]
listen = "0.0.0.0:7070"

[store]
require_replicas = 3

[providers.anthropic]
kind = "anthropic"

[agents.support]
model = "antropic/claude"
active_tools = ["refund"]
inactive_tools = ["refund_order"]

[[agents.support.tools]]
name = "refund_order"
description = "Refunds"
replay = "keyed"
check = true
http = { url = "localhost:9000", headers = { Authorization = "Bearer abc" } }
client = true

[[agents.support.tools]]
name = "refund_order"
description = "Again"
input_schema = { type = "objekt" }
"#;
    let error = error(text);
    assert!(!error.contains("Bearer abc"));
    assert_snapshot!(error);
}

#[test]
fn a_remote_tool_needs_a_queue_and_nobody_else_who_runs_it() {
    let tool = "[[agents.a.tools]]\nname = \"t\"\ndescription = \"T\"\nremote = true\n";
    let alone = error(&format!("{SMALL}{tool}"));
    assert!(alone.contains("node.toml:8:1"), "{alone}");
    assert!(alone.contains("a redb store has no tool queue"), "{alone}");
    let on_nats = |more: &str| {
        let store = "[store]\nkind = \"nats\"\nrequire_fsync = false\n";
        load(&format!("{store}{SMALL}{tool}{more}"), &[], &[])
    };
    assert!(on_nats("").is_ok());
    assert!(on_nats("http = { url = \"http://127.0.0.1/t\" }\n").is_ok());
    let twice = on_nats("client = true\n").unwrap_err().to_string();
    assert!(twice.contains("more than one thing runs it"), "{twice}");
    let misspelt = on_nats("remot = true\n").unwrap_err().to_string();
    assert!(misspelt.contains("did you mean `remote`?"), "{misspelt}");
}

#[test]
fn a_text_that_is_no_toml_is_told_with_its_place() {
    assert_snapshot!(error("[node\nname = \n"));
}

#[test]
fn a_syntax_error_beside_a_secret_does_not_repeat_it() {
    let error = error("api_key = \"sk-live-0123456789\" oops\n");
    assert!(!error.contains("sk-live"), "{error}");
    assert!(error.contains("node.toml:1"), "{error}");
}

#[test]
fn environment_and_arguments_replace_the_file_in_this_order() {
    let text = format!(
        "[store]\npath = \"file\"\n[node]\nname = \"file\"\nlisten = \"127.0.0.1:1\"\n{SMALL}"
    );
    let environment = [
        ("STEADFAST__STORE__PATH", "environment"),
        ("STEADFAST__NODE__NAME", "environment"),
        ("STEADFAST_URL", "http://ignored"),
    ];
    let config = load(
        &text,
        &environment,
        &["store.path=7", "agents.a.max_steps=3"],
    )
    .unwrap();
    assert_eq!(config.store.path, PathBuf::from("7"));
    assert_eq!(config.node.name.as_deref(), Some("environment"));
    assert_eq!(config.node.listen, "127.0.0.1:1");
    assert_eq!(config.agents["a"].max_steps, 3);
}

#[test]
fn a_variable_reaches_a_name_with_a_dash_or_capitals() {
    let text = "[providers.p]\nkind = \"scripted\"\n[agents.My-Agent]\nmodel = \"p/m\"\n";
    let variable = ("STEADFAST__AGENTS__MY_AGENT__MAX_STEPS", "7");
    let config = load(text, &[variable], &[]).unwrap();
    assert_eq!(config.agents["My-Agent"].max_steps, 7);
}

#[test]
fn a_wrong_override_names_its_source() {
    let environment = [("STEADFAST__NODE__LISTN", "127.0.0.1:2")];
    let set = ["agents.a.max_steps=many", "node.listen.port=1", "nothing"];
    assert_snapshot!(load(SMALL, &environment, &set).unwrap_err());
}

#[test]
fn a_directory_holds_one_agent_a_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("b.toml"),
        "model = \"p/m\"\nmax_steps = 9\n",
    )
    .unwrap();
    let text = format!("agents_dir = \"{}\"\n{SMALL}", directory.path().display());
    let variable = ("STEADFAST__AGENTS__B__QUEUE_MAX", "5");
    let config = load(&text, &[variable], &[]).unwrap();
    assert_eq!(
        (config.agents["b"].max_steps, config.agents["b"].queue_max),
        (9, 5)
    );

    std::fs::write(directory.path().join("a.toml"), "model = \"p/m\"\n").unwrap();
    let error = load(&text, &[], &[]).unwrap_err();
    assert!(
        error.to_string().contains("agent `a` is configured twice"),
        "{error}"
    );
}

#[test]
fn a_key_is_needed_only_of_a_provider_that_is_asked() {
    let provider = "[providers.real]\nkind = \"anthropic\"\napi_key = \"env:STEADFAST_TEST_NO_SUCH_VARIABLE\"\n";
    assert!(load(&format!("{provider}{SMALL}"), &[], &[]).is_ok());
    let used = load(
        &format!("{provider}{SMALL}"),
        &[],
        &["agents.a.model=real/m"],
    );
    let error = used.unwrap_err().to_string();
    assert!(
        error.contains("environment variable `STEADFAST_TEST_NO_SUCH_VARIABLE` is not set"),
        "{error}"
    );
}

#[test]
fn an_agents_limits_default_to_those_of_the_runtime() {
    let agent = load(SMALL, &[], &[]).unwrap().agents["a"].clone();
    assert_eq!(agent, agent::AgentOptions::new("p/m"));
    assert_eq!(agent.policy(), Policy::default());
}

mod example {
    //! `config/node.toml` is the reference: it loads, and shows each option with its default.

    use serde_json::Value;

    use super::super::schema::config_schema;
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../config/node.toml");

    #[test]
    fn the_example_loads_and_its_fixed_sections_are_the_defaults() {
        let config = load(EXAMPLE, &[], &[]).unwrap();
        let defaults = Config {
            providers: config.providers.clone(),
            agents: config.agents.clone(),
            ..Config::default()
        };
        assert_eq!(config, defaults);
    }

    /// The example with every option that it shows as a comment.
    fn everything() -> Value {
        let is_option = |line: &str| {
            line.strip_prefix('#')
                .is_some_and(|rest| rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()))
        };
        let lines: Vec<&str> = EXAMPLE
            .lines()
            .map(|line| if is_option(line) { &line[1..] } else { line })
            .collect();
        toml::from_str(&lines.join("\n")).unwrap()
    }

    /// Each place in `value` that a schema's node describes.
    fn walk(schema: &Value, values: &[&Value], path: &str, missing: &mut Vec<String>) {
        for (key, option) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{path}.{key}");
            let shown: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
            if shown.is_empty() {
                missing.push(at);
                continue;
            }
            if let Some(default) = option
                .get("default")
                .filter(|default| !default.is_array() && !default.is_object())
                && !shown.iter().any(|value| same(value, default))
            {
                missing.push(format!("{at} = {default}"));
            }
            walk(option, &shown, &at, missing);
        }
        let many = [&schema["additionalProperties"], &schema["items"]];
        for inner in many
            .into_iter()
            .filter(|inner| inner["properties"].is_object())
        {
            let values: Vec<&Value> = values.iter().flat_map(|value| children(value)).collect();
            walk(inner, &values, &format!("{path}.*"), missing);
        }
    }

    fn children(value: &Value) -> Vec<&Value> {
        match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(table) => table.values().collect(),
            _ => Vec::new(),
        }
    }

    fn same(a: &Value, b: &Value) -> bool {
        let length = |value: &Value| value.as_str()?.parse::<duration::Duration>().ok();
        a == b || length(a).is_some_and(|length_a| length(b) == Some(length_a))
    }

    #[test]
    fn the_example_shows_every_option_with_its_default() {
        let mut missing = Vec::new();
        walk(&config_schema(), &[&everything()], "", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_option_of_the_example_is_known() {
        let schema = config_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&everything())
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new());
    }

    #[test]
    fn every_option_is_described() {
        fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
            for (key, option) in schema["properties"].as_object().into_iter().flatten() {
                let at = format!("{path}.{key}");
                if option["description"].as_str().is_none_or(str::is_empty) {
                    found.push(at.clone());
                }
                undescribed(option, &at, found);
            }
            let many = [&schema["additionalProperties"], &schema["items"]];
            for inner in many.into_iter().filter(|inner| inner.is_object()) {
                undescribed(inner, &format!("{path}.*"), found);
            }
        }
        let mut found = Vec::new();
        undescribed(&config_schema(), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn a_filter_may_name_a_tool_that_is_written_in_rust() {
    let sources = Sources {
        base: Some((
            "node.toml".to_owned(),
            format!("{SMALL}active_tools = [\"refund\"]\n"),
        )),
        ..Sources::default()
    };
    let unknown = Config::load(&sources).unwrap_err().to_string();
    assert!(unknown.contains("no tool `refund`"), "{unknown}");
    let tools = RustTools::from([("a".to_owned(), ["refund".to_owned()].into())]);
    let config = Config::load_with_tools(&sources, &tools).unwrap();
    let active = Some(vec!["refund".to_owned()]);
    assert_eq!(config.agents["a"].active_tools, active);
}

#[test]
fn tools_of_a_provider_go_with_its_wire_its_names_and_who_runs_them() {
    let problem = |kind: &str, tool: &str| {
        let text = format!(
            "[providers.p]\nkind = \"{kind}\"\nbase_url = \"http://127.0.0.1:9\"\n\
             [agents.a]\nmodel = \"p/m\"\n[[agents.a.tools]]\ndescription = \"x\"\n{tool}"
        );
        load(&text, &[], &[]).err().map(|error| error.to_string())
    };
    let bash = "name = \"bash\"\nprovider = \"anthropic.bash_20250124\"\n";
    let run = "command = { program = \"cat\" }\n";
    let search = "name = \"web_search\"\nprovider = \"anthropic.web_search_20250305\"\n";
    let shell = "name = \"shell\"\nprovider = \"openai.local_shell\"\n";
    assert_eq!(problem("anthropic", &format!("{bash}{run}")), None);
    assert_eq!(problem("anthropic", search), None);
    let openai = "name = \"search\"\nprovider = \"openai.web_search\"\n";
    assert_eq!(problem("openai-responses", openai), None);
    let named = bash.replace("\"bash\"", "\"shell\"");
    let refused = [
        ("anthropic", bash.to_owned(), "nothing runs it"),
        ("anthropic", format!("{search}{run}"), "the provider runs"),
        (
            "anthropic",
            format!("{named}{run}"),
            "only under the name `bash`",
        ),
        ("anthropic", openai.to_owned(), "does not speak the wire"),
        ("openai-chat", openai.to_owned(), "does not speak the wire"),
        (
            "openai-responses",
            format!("{shell}{run}"),
            "cannot be run here",
        ),
        (
            "anthropic",
            format!("{search}approval = \"user-approval\"\n"),
            "within its reply",
        ),
        (
            "anthropic",
            format!("name = \"a\"\n{run}provider_options = {{ a = 1 }}\n"),
            "only a tool with `provider`",
        ),
        (
            "anthropic",
            "name = \"bash\"\nprovider = \"mistral.bash\"\n".to_owned(),
            "provider",
        ),
    ];
    for (kind, tool, words) in refused {
        let told = problem(kind, &tool).unwrap_or_default();
        assert!(told.contains(words), "{tool}\n{told}");
    }
}

#[test]
fn what_steers_the_loop_is_checked_with_its_place() {
    let text = r#"
[providers.p]
kind = "scripted"

[agents.a]
model = "p/m"
tool_choice = { tool = "sumbit" }
stop_after_tools = ["submit", "get_wether"]
output_schema = { type = "objekt" }
steps = [
    { first = 1, tool_choice = { tool = "sumbit" } },
    { first = 3, last = 2, active_tools = ["submit"], inactive_tools = ["nothing"] },
]

[[agents.a.tools]]
name = "submit"
description = "Ends it"
input_schema = { type = "object" }
client = true
"#;
    assert_snapshot!(error(text));
}

/// Each block of the README is a part of a configuration; a file stands for each secret.
#[test]
fn what_the_readme_shows_is_a_configuration() {
    let readme = include_str!("../../../../README.md");
    let blocks: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 3, "{} blocks", blocks.len());
    let mut key = tempfile::NamedTempFile::new().unwrap();
    write!(key, "whsec_{}", "A".repeat(32)).unwrap();
    let key = format!("file:{}", key.path().display());
    for block in blocks {
        let secret = concat!("file:", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut text = block.replace("env:NATS_PASSWORD", secret);
        text = text.replace("env:STEADFAST_WEBHOOK_SECRET", &key);
        if !text.contains("[providers.") {
            let provider = "[providers.anthropic]\nkind = \"anthropic\"\napi_key";
            text.push_str(&format!("\n{provider} = \"{secret}\"\n"));
        }
        if !text.contains("model = ") {
            text = format!("{text}\n[agents.support]\nmodel = \"anthropic/m\"\n");
        }
        if let Err(error) = load(&text, &[], &[]) {
            panic!("{error}\nin\n{block}");
        }
    }
}
