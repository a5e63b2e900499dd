//! Checks a document against the schema: every unknown key and wrong value at once.

use jsonschema::error::{ValidationError, ValidationErrorKind};
use serde_json::Value;

use crate::config::document::Document;
use crate::config::key_path::KeyPath;
use crate::config::nearest::nearest;
use crate::config::problem::Problem;
use crate::config::schema::schema_at;
use crate::config::unavailable;

/// All places in which the document does not fit the schema.
pub(crate) fn check(document: &Document, schema: &Value) -> Vec<Problem> {
    let value = Value::Object(document.value.clone());
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => {
            let title = format!("the configuration's own schema is broken: {error}");
            return vec![Problem::value(KeyPath::default(), title)];
        }
    };
    validator
        .iter_errors(&value)
        .flat_map(|error| problems(&error, schema))
        .collect()
}

fn problems(error: &ValidationError<'_>, schema: &Value) -> Vec<Problem> {
    let path = KeyPath(
        error
            .instance_path()
            .segments()
            .map(|segment| segment.to_string())
            .collect(),
    );
    let node = schema_at(schema, &path).unwrap_or(&Value::Null);
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .map(|key| unknown_key(&path, key, node))
            .collect(),
        ValidationErrorKind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let about = node.get("properties").and_then(|all| all.get(key));
            let title = format!("{}: `{key}` is missing", shown(&path));
            let problem = Problem::key(path, title).label(format!("needs `{key}`"));
            vec![match about.and_then(first_sentence) {
                Some(about) => problem.help(format!("`{key}`: {about}")),
                None => problem,
            }]
        }
        ValidationErrorKind::Enum { options } => {
            vec![wrong_choice(path, error.instance(), options)]
        }
        ValidationErrorKind::Pattern { .. } if is_secret(node) => {
            let title = format!(
                "{}: a secret is never written into the configuration",
                shown(&path)
            );
            vec![
                Problem::value(path, title)
                    .label("a literal secret")
                    .help(format!("use {}", expected(node))),
            ]
        }
        _ => {
            let title = format!("{}: expected {}", shown(&path), expected(node));
            let found = found(error.instance(), is_secret(node));
            vec![Problem::value(path, title).label(found)]
        }
    }
}

fn unknown_key(path: &KeyPath, key: &str, node: &Value) -> Problem {
    let at = path.join(key);
    if let Some(reason) = unavailable::key(&at) {
        return Problem::key(at.clone(), format!("`{at}` is not available in this build"))
            .label("not available")
            .help(reason);
    }
    let known: Vec<&str> = node
        .get("properties")
        .and_then(Value::as_object)
        .map(|all| all.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let problem = Problem::key(at, format!("unknown key `{key}` in {}", shown(path)));
    match nearest(key, known.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem
            .label("unknown")
            .help(format!("known keys: {}", known.join(", "))),
    }
}

fn wrong_choice(path: KeyPath, value: &Value, options: &Value) -> Problem {
    let word = value.as_str().unwrap_or_default();
    if let Some(reason) = unavailable::value(&path, word) {
        let title = format!("{}: `{word}` is not available in this build", shown(&path));
        return Problem::value(path, title)
            .label("not available")
            .help(reason);
    }
    let options: Vec<&str> = options
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let title = format!("{}: expected one of {}", shown(&path), options.join(", "));
    let label = nearest(word, options).map_or_else(
        || found(value, false),
        |near| format!("did you mean `{near}`?"),
    );
    Problem::value(path, title).label(label)
}

/// What a schema wants, in words.
pub(crate) fn expected(node: &Value) -> String {
    if let Some(title) = node.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    let number = |key: &str| node.get(key).and_then(Value::as_f64);
    let kind = match node.get("type").and_then(Value::as_str) {
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "a table",
        Some("string") => "text in quotes",
        _ => "another value",
    };
    match (number("minimum"), number("maximum")) {
        (Some(low), Some(high)) => format!("{kind} from {low} to {high}"),
        (Some(low), None) => format!("{kind} of at least {low}"),
        (None, Some(high)) => format!("{kind} of at most {high}"),
        (None, None) => kind.to_owned(),
    }
}

fn found(value: &Value, secret: bool) -> String {
    match value {
        Value::String(_) if secret => "found text".to_owned(),
        Value::String(text) => format!("found the text \"{text}\""),
        Value::Array(_) => "found a list".to_owned(),
        Value::Object(_) => "found a table".to_owned(),
        Value::Null => "found nothing".to_owned(),
        Value::Number(_) | Value::Bool(_) => format!("found {value}"),
    }
}

fn is_secret(node: &Value) -> bool {
    node.get("title").and_then(Value::as_str) == Some(crate::config::secret::SECRET_RULE)
}

fn first_sentence(node: &Value) -> Option<&str> {
    let text = node.get("description")?.as_str()?;
    Some(text.split('\n').next().unwrap_or(text))
}

fn shown(path: &KeyPath) -> String {
    if path.0.is_empty() {
        "the configuration".to_owned()
    } else {
        format!("`{path}`")
    }
}
