//! The JSON Schema of the configuration: what editors complete, and what every source is checked
//! against.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::config::key_path::KeyPath;

/// The schema of the whole configuration.
pub fn config_schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let generated = settings.into_generator().into_root_schema_for::<Config>();
    let mut schema = generated.to_value();
    simplify(&mut schema);
    schema
}

/// The part of a schema that describes the value at this path.
pub(crate) fn schema_at<'a>(schema: &'a Value, path: &KeyPath) -> Option<&'a Value> {
    path.0.iter().try_fold(schema, |schema, key| {
        if let Some(property) = schema.get("properties").and_then(|all| all.get(key)) {
            return Some(property);
        }
        let others = schema
            .get("additionalProperties")
            .or_else(|| schema.get("items"))?;
        others.is_object().then_some(others)
    })
}

/// Leaves out what TOML cannot say (null), and turns a choice of constants into an `enum`.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            object.values_mut().for_each(simplify);
            drop_null(object);
            choice_to_enum(object);
        }
        _ => {}
    }
}

fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(options)) = object.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

fn choice_to_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else {
        return;
    };
    let constants: Option<Vec<Value>> = choices
        .iter()
        .map(|choice| choice.get("const").cloned())
        .collect();
    let Some(constants) = constants else {
        return;
    };
    let text =
        |choice: &Value, key: &str| choice.get(key).and_then(Value::as_str).map(str::to_owned);
    let lines: Vec<String> = choices
        .iter()
        .filter_map(|choice| {
            Some(format!(
                "{}: {}",
                text(choice, "const")?,
                text(choice, "description")?
            ))
        })
        .collect();
    let mut description = vec![
        object
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned(),
    ];
    description.extend(lines);
    description.retain(|line| !line.is_empty());
    object.remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), Value::Array(constants));
    object.insert("description".to_owned(), json!(description.join("\n")));
}
