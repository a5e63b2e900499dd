//! The one loader: sources to document, document to configuration.

use std::path::Path;

use serde_json::Value;

use crate::config::document::{Document, Source, SyntaxError};
use crate::config::key_path::KeyPath;
use crate::config::problem::Problem;
use crate::config::rules::RustTools;
use crate::config::schema::{config_schema, schema_at};
use crate::config::{Config, ConfigError, Sources, check, rules};

/// What environment variables of the configuration start with.
const ENVIRONMENT_PREFIX: &str = "STEADFAST__";

pub(super) fn load(sources: &Sources, tools: &RustTools) -> Result<Config, ConfigError> {
    let schema = config_schema();
    let mut document = Document::default();
    if let Some((name, text)) = &sources.base {
        let errors = document.merge_file(name, text, &KeyPath::default());
        // Nothing that follows from half a file is worth reporting.
        if let Some(error) = ConfigError::syntax(name, text, &errors) {
            return Err(error);
        }
    }
    let mut problems = Vec::new();
    // The directory's own name may be overridden, and then what is in it.
    let names_directory = |path: &KeyPath| path.to_string() == "agents_dir";
    problems.extend(override_where(
        &mut document,
        sources,
        &schema,
        names_directory,
    ));
    add_agents_dir(&mut document, &mut problems)?;
    let others = |path: &KeyPath| !names_directory(path);
    problems.extend(override_where(&mut document, sources, &schema, others));
    problems.extend(check::check(&document, &schema));
    if let Some(error) = ConfigError::new(&document, &problems) {
        return Err(error);
    }
    let value = Value::Object(document.value.clone());
    let config: Config = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = KeyPath::dotted(&error.path().to_string().replace('[', ".").replace(']', ""));
        let problem = Problem::value(path.clone(), format!("`{path}`: {}", error.inner()));
        ConfigError::of_one(&document, problem)
    })?;
    match ConfigError::new(&document, &rules::check(&config, tools)) {
        Some(error) => Err(error),
        None => Ok(config),
    }
}

fn add_agents_dir(document: &mut Document, problems: &mut Vec<Problem>) -> Result<(), ConfigError> {
    let key = KeyPath::from(["agents_dir"]);
    let Some(directory) = document
        .get(&key)
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return Ok(());
    };
    let files = match toml_files(Path::new(&directory)) {
        Ok(files) => files,
        Err(error) => {
            let title = format!("`agents_dir`: directory `{directory}` could not be read: {error}");
            problems.push(
                Problem::value(key, title).help("paths are relative to the working directory"),
            );
            return Ok(());
        }
    };
    for path in files {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let shown = path.display().to_string();
        let at = KeyPath::from(["agents"]).join(&name);
        if document.get(&at).is_some() {
            let title = format!("agent `{name}` is configured twice: here and in `{shown}`");
            problems.push(Problem::key(at, title));
            continue;
        }
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                let title = format!("`agents_dir`: `{shown}` could not be read: {error}");
                problems.push(Problem::value(key.clone(), title));
                continue;
            }
        };
        let errors = document.merge_file(&shown, &text, &at);
        if let Some(error) = ConfigError::syntax(&shown, &text, &errors) {
            return Err(error);
        }
    }
    Ok(())
}

fn toml_files(directory: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Applies the environment, then the arguments, as far as they are about certain keys.
fn override_where(
    document: &mut Document,
    sources: &Sources,
    schema: &Value,
    wanted: impl Fn(&KeyPath) -> bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, text) in &sources.environment {
        if let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX) {
            let path = environment_path(document, schema, rest);
            if wanted(&path) {
                let source = Source::Environment(name.clone());
                problems.extend(override_one(document, schema, source, path, text));
            }
        }
    }
    for argument in &sources.set {
        match argument.split_once('=') {
            Some((key, text)) => {
                let source = Source::Argument(key.to_owned());
                let path = KeyPath::dotted(key.trim());
                if wanted(&path) {
                    problems.extend(override_one(document, schema, source, path, text));
                }
            }
            None if !wanted(&KeyPath::default()) => {}
            None => {
                let title = format!("`--set {argument}`: expected section.key=value");
                problems.push(Problem::value(KeyPath::default(), title));
            }
        }
    }
    problems
}

fn override_one(
    document: &mut Document,
    schema: &Value,
    source: Source,
    path: KeyPath,
    text: &str,
) -> Option<Problem> {
    let value = value_of(schema_at(schema, &path), text);
    let blocked = document.set(source, &path, value).err()?;
    let title = format!("`{path}` cannot be set: `{blocked}` has no such part");
    Some(Problem::value(blocked, title))
}

/// A text where the option is a text, else what TOML reads.
fn value_of(schema: Option<&Value>, text: &str) -> Value {
    let is_text = schema.and_then(|schema| schema.get("type")) == Some(&Value::from("string"));
    if is_text {
        return Value::from(text);
    }
    let mut parsed = Document::default();
    let errors = parsed.merge_file("", &format!("value = {text}"), &KeyPath::default());
    match parsed.value.remove("value") {
        Some(value) if errors.is_empty() => value,
        _ => Value::from(text),
    }
}

/// Finds the keys that a variable's name means: `-` cannot be written there, nor small letters.
fn environment_path(document: &Document, schema: &Value, rest: &str) -> KeyPath {
    rest.split("__").fold(KeyPath::default(), |path, word| {
        let options = schema_at(schema, &path).and_then(|node| node.get("properties"));
        let known = options
            .and_then(Value::as_object)
            .map(|all| all.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default();
        let same = |key: &&String| key.replace('-', "_").eq_ignore_ascii_case(word);
        let present = document.keys(&path);
        let key = known.iter().chain(&present).find(same).cloned();
        path.join(key.unwrap_or_else(|| word.to_ascii_lowercase()))
    })
}

impl ConfigError {
    fn of_one(document: &Document, problem: Problem) -> Self {
        Self::new(document, std::slice::from_ref(&problem))
            .unwrap_or_else(|| Self::bare(&problem.title, ""))
    }

    fn syntax(path: &str, text: &str, errors: &[SyntaxError]) -> Option<Self> {
        let places: Vec<_> = errors
            .iter()
            .map(|error| (error.message.as_str(), error.span.clone()))
            .collect();
        Self::of_text(path, text, &places)
    }
}
