//! JSON bodies, read strictly.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::nearest;
use crate::app::Api;
use crate::error::{ErrorCode, Problem};
use crate::options::Limits;

/// A JSON object that must be there.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON object that may be left out; then all its fields are.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        check_headers(&parts.headers)?;
        let bytes = read_bytes(&api.options().limits, &parts.headers, body).await?;
        parse(&bytes, api.options().limits.json_depth_max).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read_bytes(&api.options().limits, &parts.headers, body).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        check_headers(&parts.headers)?;
        parse(&bytes, api.options().limits.json_depth_max).map(Self)
    }
}

/// A web page may send other types without asking first, so only JSON counts, even when the bytes
/// would be JSON.
fn check_headers(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(
            ErrorCode::MediaTypeUnsupported,
            "bodies with `Content-Encoding` are not read; send the JSON as it is",
        )
        .with_field("content-encoding"));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let json = match (types.next(), types.next()) {
        (Some(value), None) => value.to_str().is_ok_and(is_json),
        _ => false,
    };
    if json {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::MediaTypeUnsupported,
        "the body must be JSON: send one header `Content-Type: application/json`",
    )
    .with_field("content-type"))
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

async fn read_bytes(limits: &Limits, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let max = limits.body_bytes_max;
    let too_large = || {
        let detail = format!("the body may have at most {max} bytes");
        Problem::new(ErrorCode::BodyTooLarge, detail)
    };
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > max as u64) {
        return Err(too_large());
    }
    let patience = Duration::from_millis(limits.body_read_ms);
    match tokio::time::timeout(patience, Limited::new(body, max).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(
            ErrorCode::BodyIncomplete,
            "the body broke off before its end",
        )),
        Err(_) => Err(Problem::new(
            ErrorCode::BodyTimeout,
            format!("the body must be there within {} ms", limits.body_read_ms),
        )),
    }
}

/// Reads an object from bytes; every mistake is named with its place.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], depth_max: usize) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let detail = format!("the body is not UTF-8 from byte {} on", error.valid_up_to());
        Problem::new(ErrorCode::BodyNotUtf8, detail)
    })?;
    if text.trim().is_empty() {
        let detail = "the body is empty; send a JSON object";
        return Err(Problem::new(ErrorCode::BodyNotJson, detail));
    }
    if nests_deeper(text, depth_max) {
        let detail = format!("the body may be nested at most {depth_max} levels deep");
        return Err(Problem::new(ErrorCode::BodyTooDeep, detail));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize::<_, Object<T>>(&mut reader)
        .map_err(|error| problem_of(&error.path().to_string(), error.inner()))?;
    reader.end().map_err(|error| not_json(&error))?;
    Ok(value.0)
}

/// Whether brackets outside of strings nest deeper than `max`.
fn nests_deeper(text: &str, max: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(
        ErrorCode::BodyNotJson,
        format!("the body is not JSON: {error}"),
    )
}

fn problem_of(path: &str, error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return not_json(error);
    }
    let message = error.to_string();
    let message = match message.rfind(" at line ") {
        Some(end) => message.get(..end).unwrap_or(&message),
        None => &message,
    };
    let parent = path.trim_matches('.');
    let inside = |name: &str| match (parent.is_empty(), parent.ends_with(name)) {
        (true, _) => name.to_owned(),
        // The path already leads to the field itself.
        (false, true) => parent.to_owned(),
        (false, false) => format!("{parent}.{name}"),
    };
    if let Some(name) = quoted(message, "missing field `") {
        return Problem::missing(inside(name));
    }
    if let Some(name) = quoted(message, "duplicate field `") {
        let field = inside(name);
        let detail = format!("`{field}` is given twice");
        return Problem::new(ErrorCode::FieldDuplicate, detail).with_field(field);
    }
    if let Some((name, known)) = unknown_field(message) {
        let name: String = name.chars().take(64).collect();
        let field = inside(&name);
        let mut detail = format!("`{field}` is not known here");
        match nearest(&name, known.iter().copied()) {
            Some(near) => detail.push_str(&format!("; did you mean `{near}`?")),
            None if known.is_empty() => detail.push_str("; no field is"),
            None => detail.push_str(&format!("; known are `{}`", known.join("`, `"))),
        }
        return Problem::new(ErrorCode::FieldUnknown, detail).with_field(field);
    }
    if parent.is_empty() {
        return Problem::new(ErrorCode::FieldInvalid, format!("the body: {message}"));
    }
    Problem::field(parent, message)
}

fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.strip_suffix('`')
}

/// The name and the known names in `unknown field `a`, expected one of `b`, `c``.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, known) = match rest.rfind("`, expected ") {
        Some(end) => (rest.get(..end)?, rest.get(end..)?),
        None => (rest.split_once("`, there are no fields")?.0, ""),
    };
    // Known names stand between backticks, so every second piece is one.
    let known = known.split('`').skip(2).step_by(2);
    Some((name, known.filter(|name| !name.is_empty()).collect()))
}

/// A value that must be written as a JSON object: an array never counts as one by position.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for AsMap<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(AsMap(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code)]
        agent: String,
        #[serde(default)]
        #[allow(dead_code)]
        metadata: Value,
        #[serde(default)]
        #[allow(dead_code)]
        tags: Vec<String>,
        #[serde(default)]
        #[allow(dead_code)]
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code)]
        size: u32,
    }

    fn problem(body: impl AsRef<[u8]>) -> String {
        match parse::<Sample>(body.as_ref(), 8) {
            Ok(sample) => format!("{sample:?}"),
            Err(problem) => {
                let body = problem.body();
                format!(
                    "{} [{}] {}",
                    body.code,
                    body.field.unwrap_or_default(),
                    body.detail
                )
            }
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let shown: Vec<String> = [
            r#"{"agnt": "a"}"#,
            r#"{"agent": "a", "colour": 1}"#,
            r#"{"metadata": 1}"#,
            r#"{"agent": 5}"#,
            r#"{"agent": "a", "agent": "b"}"#,
            r#"{"agent": "a", "tags": ["x", 2]}"#,
            r#"{"agent": "a", "inner": {"size": -1}}"#,
            r#"{"agent": "a", "inner": {"sice": 1}}"#,
            r#"{"agent": "a", "inner": {}}"#,
            r#"["a"]"#,
            r#""a""#,
            r#"{"agent": "a"} x"#,
            r#"{"agent": "#,
            "",
            r#"{"agent": "a", "metadata": {"a":[[[[[[[1]]]]]]]}}"#,
            r#"{"agent": "a", "`, expected `b`": 1}"#,
        ]
        .iter()
        .map(|body| format!("{body}\n    {}", problem(body)))
        .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        {"agnt": "a"}
            field_unknown [agnt] `agnt` is not known here; did you mean `agent`?
        {"agent": "a", "colour": 1}
            field_unknown [colour] `colour` is not known here; known are `agent`, `metadata`, `tags`, `inner`
        {"metadata": 1}
            field_missing [agent] `agent` is missing
        {"agent": 5}
            field_invalid [agent] `agent`: invalid type: integer `5`, expected a string
        {"agent": "a", "agent": "b"}
            field_duplicate [agent] `agent` is given twice
        {"agent": "a", "tags": ["x", 2]}
            field_invalid [tags[1]] `tags[1]`: invalid type: integer `2`, expected a string
        {"agent": "a", "inner": {"size": -1}}
            field_invalid [inner.size] `inner.size`: invalid value: integer `-1`, expected u32
        {"agent": "a", "inner": {"sice": 1}}
            field_unknown [inner.sice] `inner.sice` is not known here; did you mean `size`?
        {"agent": "a", "inner": {}}
            field_missing [inner.size] `inner.size` is missing
        ["a"]
            field_invalid [] the body: invalid type: sequence, expected a JSON object
        "a"
            field_invalid [] the body: invalid type: string "a", expected a JSON object
        {"agent": "a"} x
            body_not_json [] the body is not JSON: trailing characters at line 1 column 16
        {"agent": 
            body_not_json [] the body is not JSON: EOF while parsing a value at line 1 column 10

            body_not_json [] the body is empty; send a JSON object
        {"agent": "a", "metadata": {"a":[[[[[[[1]]]]]]]}}
            body_too_deep [] the body may be nested at most 8 levels deep
        {"agent": "a", "`, expected `b`": 1}
            field_unknown [`, expected `b`] ``, expected `b`` is not known here; known are `agent`, `metadata`, `tags`, `inner`
        "#);
        insta::assert_snapshot!(problem(b"{\"agent\": \"\xff\"}"), @"body_not_utf8 [] the body is not UTF-8 from byte 11 on");
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        assert!(!nests_deeper(r#"["[[[[\"[[", "{{"]"#, 1));
        assert!(nests_deeper("[[", 1));
        assert!(!nests_deeper("[][]", 1));
        assert!(!nests_deeper("]]]][", 1));
    }

    #[test]
    fn only_json_types_are_json() {
        for (content_type, json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/merge-patch+json", true),
            ("text/json", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ] {
            assert_eq!(is_json(content_type), json, "{content_type}");
        }
    }
}
