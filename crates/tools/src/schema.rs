//! JSON Schemas: compiled once, checked often, violations told in words.

mod nesting;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;
use steadfast_core::limits::DETAIL_BYTES_MAX;
use thiserror::Error;

use crate::cut::cut;

/// Nesting of a schema or of a checked value, at most; the parser of JSON has the same bound.
pub const DEPTH_MAX: usize = 128;

/// Nesting of a value times the schemas that apply at one of its places, at most: checking recurses
/// this deep, and a stack of 2 MiB holds several times as much.
const RECURSION_MAX: usize = 1_024;

/// Memory of one compiled `pattern`, at most.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Errors named in one violation, at most.
const ERRORS_NAMED_MAX: usize = 5;

/// Why a schema cannot be used: the tool is refused at start-up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// It is not a JSON Schema 2020-12, or refers to something outside itself.
    #[error("not a usable JSON Schema 2020-12: at {at}: {reason}")]
    Invalid {
        /// JSON pointer into the schema.
        at: String,
        /// What is wrong there.
        reason: String,
    },
    /// It is nested too deep.
    #[error("the schema is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// What is wrong with a value, in words for a model: what, where, in at most
/// [`DETAIL_BYTES_MAX`] bytes. Values themselves are left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SchemaViolation(String);

impl SchemaViolation {
    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A compiled JSON Schema 2020-12: no network, formats asserted, patterns in linear time.
#[derive(Debug, Clone)]
pub struct Schema {
    validator: Validator,
    value_depth_max: usize,
}

impl Schema {
    /// Compiles a schema.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if is_deeper_than(schema, DEPTH_MAX) {
            return Err(SchemaError::TooDeep);
        }
        let value_depth_max = DEPTH_MAX.min(RECURSION_MAX / nesting::longest_chain(schema)?);
        let pattern_options = PatternOptions::regex()
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .offline()
            .with_pattern_options(pattern_options)
            .build(schema)
            .map_err(|error| SchemaError::Invalid {
                at: place(error.instance_path().as_str()),
                reason: cut(&error.to_string(), DETAIL_BYTES_MAX),
            })?;
        Ok(Self {
            validator,
            value_depth_max,
        })
    }

    /// Checks a value.
    pub fn check(&self, value: &Value) -> Result<(), SchemaViolation> {
        if is_deeper_than(value, self.value_depth_max) {
            return Err(SchemaViolation(format!(
                "it is nested deeper than {} levels",
                self.value_depth_max
            )));
        }
        let mut errors = self.validator.iter_errors(value);
        let named: Vec<String> = errors
            .by_ref()
            .take(ERRORS_NAMED_MAX)
            .map(|error| in_words(&error))
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let mut words = named.join("; ");
        if errors.next().is_some() {
            words.push_str("; and more");
        }
        Err(SchemaViolation(cut(&words, DETAIL_BYTES_MAX)))
    }
}

/// Where and what; for alternatives also why each of the first few does not fit, since "none of
/// them" alone does not tell a model what to change.
fn in_words(error: &ValidationError<'_>) -> String {
    const ALTERNATIVES_NAMED_MAX: usize = 3;
    let mut words = one_line(error);
    if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
        error.kind()
    {
        for (number, errors) in (1..).zip(context.iter().take(ALTERNATIVES_NAMED_MAX)) {
            if let Some(first) = errors.first() {
                words.push_str(&format!(" [alternative {number}: {}]", one_line(first)));
            }
        }
    }
    words
}

fn one_line(error: &ValidationError<'_>) -> String {
    let at = place(error.instance_path().as_str());
    cut(&format!("at {at}: {}", error.masked()), DETAIL_BYTES_MAX)
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() {
        "the top level".to_owned()
    } else {
        pointer.to_owned()
    }
}

/// Whether a value is nested deeper than this; itself without recursion.
fn is_deeper_than(value: &Value, depth_max: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > depth_max {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Levels of `{"a": ...}` around `inner`.
    fn nested(levels: usize, inner: Value) -> Value {
        (0..levels).fold(inner, |value, _| {
            let field = ("a".to_owned(), value);
            Value::Object(std::iter::once(field).collect())
        })
    }

    fn check(schema: &Value, value: &Value) -> String {
        match Schema::compile(schema) {
            Ok(schema) => match schema.check(value) {
                Ok(()) => "fits".to_owned(),
                Err(violation) => violation.to_string(),
            },
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn a_violation_says_what_is_wrong_where() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": { "type": "string", "maxLength": 5 },
                "day": { "type": "string", "format": "date" },
                "size": { "enum": ["s", "m"] },
                "to": { "oneOf": [{ "type": "string" }, { "type": "object", "required": ["name"] }] },
                "tags": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["city"],
            "additionalProperties": false,
        });
        let cases = [
            (json!({ "city": "Rome" }), "fits"),
            (
                json!({}),
                "at the top level: \"city\" is a required property",
            ),
            (
                json!([]),
                "at the top level: value is not of type \"object\"",
            ),
            (
                json!({ "city": "Rome", "tags": ["a", 1] }),
                "at /tags/1: value is not of type \"string\"",
            ),
            (
                json!({ "city": "Rome", "day": "tomorrow" }),
                "at /day: value is not a \"date\"",
            ),
            (
                json!({ "city": "Rome", "size": "xl" }),
                "at /size: value is not one of \"s\" or \"m\"",
            ),
            (
                json!({ "city": "Rome", "x": 1 }),
                "at the top level: Additional properties are not allowed ('x' was unexpected)",
            ),
            (
                json!({ "city": "Rome", "to": {} }),
                "at /to: value is not valid under any of the schemas listed in the 'oneOf' keyword \
                 [alternative 1: at /to: value is not of type \"string\"] \
                 [alternative 2: at /to: \"name\" is a required property]",
            ),
        ];
        for (value, words) in cases {
            assert_eq!(check(&schema, &value), words, "for {value}");
        }
    }

    #[test]
    fn a_violation_never_repeats_the_value_and_is_bounded() {
        let properties: Value = (0..100)
            .map(|number| (format!("field{number}"), json!({ "type": "integer" })))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let secret = "secret".repeat(1_000);
        let value: Value = (0..100)
            .map(|number| (format!("field{number}"), json!(secret)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let words = check(&json!({ "properties": properties }), &value);
        assert!(words.len() <= DETAIL_BYTES_MAX, "{} bytes", words.len());
        assert!(!words.contains("secret"), "{words}");
        assert!(words.ends_with("; and more"), "{words}");
    }

    #[test]
    fn an_unusable_schema_is_refused_with_its_place() {
        let cases = [
            (json!({ "type": "objekt" }), "/type"),
            (
                json!({ "properties": { "a": { "pattern": "(" } } }),
                "/properties/a/pattern",
            ),
            // Look-around needs a backtracking engine, whose time an input could make explode.
            (
                json!({ "properties": { "a": { "pattern": "(?=a)" } } }),
                "/properties/a/pattern",
            ),
            (
                json!({ "properties": { "a": { "pattern": "a{1000000}" } } }),
                "/properties/a/pattern",
            ),
            (
                json!({ "properties": { "a/b": { "$ref": "#/$defs/none" } } }),
                "/properties/a~1b/$ref",
            ),
            (
                json!({ "items": { "$ref": "http://127.0.0.1:1/x" } }),
                "/items/$ref",
            ),
            (
                json!({ "items": { "$ref": "file:///etc/passwd" } }),
                "/items/$ref",
            ),
            (json!("object"), "the top level"),
        ];
        for (schema, place) in cases {
            match Schema::compile(&schema) {
                Err(SchemaError::Invalid { at, .. }) => assert_eq!(at, place, "for {schema}"),
                other => panic!("{schema} gave {other:?}"),
            }
        }
    }

    #[test]
    fn a_schema_that_applies_itself_at_the_same_place_is_refused() {
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
            json!({ "$dynamicAnchor": "x", "anyOf": [{ "$dynamicRef": "#x" }] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" } } }),
        ] {
            let words = check(&schema, &json!({}));
            assert!(words.contains("applies itself"), "{schema}: {words}");
        }
    }

    #[test]
    fn a_recursive_schema_checks_nested_values() {
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": { "node": {
                "type": "object",
                "properties": { "a": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } },
                "additionalProperties": false,
            } },
        });
        assert_eq!(check(&tree, &nested(100, json!(null))), "fits");
        assert!(check(&tree, &nested(3, json!({ "b": 1 }))).starts_with("at /a"));
    }

    #[test]
    fn values_and_schemas_too_deep_for_the_stack_are_refused() {
        let any = json!(true);
        assert_eq!(check(&any, &nested(DEPTH_MAX - 1, json!(1))), "fits");
        assert_eq!(
            check(&any, &nested(2_000, json!(1))),
            "it is nested deeper than 128 levels"
        );
        let deep = (0..DEPTH_MAX).fold(
            json!({}),
            |schema, _| json!({ "properties": { "a": schema } }),
        );
        assert_eq!(Schema::compile(&deep).err(), Some(SchemaError::TooDeep));

        // Sixty schemas apply at each level: few levels are let through, so the stack holds.
        let heavy = |chain: usize| {
            let chain = (0..chain).fold(
                json!({ "$ref": "#" }),
                |schema, _| json!({ "allOf": [schema] }),
            );
            json!({ "properties": { "a": chain } })
        };
        assert_eq!(check(&heavy(60), &nested(15, json!(1))), "fits");
        assert_eq!(
            check(&heavy(60), &nested(100, json!(1))),
            "it is nested deeper than 16 levels"
        );
        let chained: serde_json::Map<String, Value> = (0..70)
            .map(|number| {
                let next = format!("#/$defs/{}", number + 1);
                (number.to_string(), json!({ "$ref": next }))
            })
            .chain([("70".to_owned(), json!({}))])
            .collect();
        let words = check(&json!({ "$defs": chained }), &json!({}));
        assert!(words.contains("more than 64 schemas"), "{words}");
    }

    #[test]
    fn the_deepest_admitted_schemas_and_values_fit_a_thread_of_two_mebibytes() {
        let run = || {
            let deep = (0..63).fold(
                json!({}),
                |schema, _| json!({ "properties": { "a": schema } }),
            );
            assert_eq!(check(&deep, &nested(DEPTH_MAX - 1, json!(1))), "fits");
            for chain in [0, 1, 6, 14, 30, 60] {
                let chain = (0..chain).fold(
                    json!({ "$ref": "#" }),
                    |schema, _| json!({ "anyOf": [schema] }),
                );
                let schema = json!({ "properties": { "a": chain }, "required": ["a"] });
                let compiled = Schema::compile(&schema).unwrap();
                let value = nested(compiled.value_depth_max - 1, json!({}));
                assert!(compiled.check(&value).is_err());
            }
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
        thread.unwrap().join().unwrap();
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\u{e9}\u{1f600}#/~$]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            let key = prop_oneof![
                "[a-z]{1,3}",
                prop::sample::select(vec![
                    "type",
                    "properties",
                    "items",
                    "$ref",
                    "allOf",
                    "anyOf",
                    "not",
                    "pattern",
                    "required",
                    "enum",
                    "$defs",
                    "format",
                    "if",
                    "additionalProperties",
                ])
                .prop_map(str::to_owned),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..6).prop_map(|fields| Value::from(
                    fields.into_iter().collect::<serde_json::Map<_, _>>()
                )),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_schema_and_any_value_give_an_answer_within_bounds(schema in any_json(), value in any_json()) {
            match Schema::compile(&schema) {
                Ok(compiled) => {
                    if let Err(violation) = compiled.check(&value) {
                        prop_assert!(!violation.as_str().is_empty());
                        prop_assert!(violation.as_str().len() <= DETAIL_BYTES_MAX);
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
