//! A session and its conversation, for people.

use serde_json::Value;

use super::now_ms;
use crate::terminal::{ACCENT, BAD, DIM, STRONG, WARN, line, paint, plain, took};

/// Prints a session's state and its messages.
pub(super) fn print(session: &Value, messages: &[Value]) {
    let text = |key: &str| session[key].as_str().unwrap_or("-");
    crate::terminal::say!(
        "{} {}",
        paint(STRONG, text("id")),
        paint(DIM, format!("agent {}", text("agent")))
    );
    crate::terminal::say!(
        "{}",
        paint(
            DIM,
            format!(
                "{}, {} events, epoch {}, owner {}, {} tokens in, {} out",
                text("status"),
                session["seq"],
                session["epoch"],
                session["owner"].as_str().unwrap_or("none"),
                session["usage"]["input_tokens"],
                session["usage"]["output_tokens"],
            )
        )
    );
    for waiting in session["waiting"].as_array().into_iter().flatten() {
        crate::terminal::say!(
            "{}",
            paint(WARN, format!("waits for {}", described(waiting)))
        );
    }
    for message in messages {
        print_message(message);
    }
}

/// Prints why a session is as it is.
pub(super) fn print_why(why: &Value) {
    crate::terminal::say!(
        "{}",
        plain(why["summary"].as_str().unwrap_or("nothing is known"))
    );
    let lists = [
        ("outstanding", "runs"),
        ("waiting", "waits for"),
        ("timers", "timer"),
    ];
    for (key, word) in lists {
        for item in why[key].as_array().into_iter().flatten() {
            crate::terminal::say!("{}", paint(DIM, format!("  {word}: {}", described(item))));
        }
    }
}

fn print_message(message: &Value) {
    let role = message["role"].as_str().unwrap_or("?");
    let state = match message["state"].as_str() {
        Some("completed") | None => String::new(),
        Some(state) => format!(" ({state})"),
    };
    crate::terminal::say!("\n{}{}", paint(STRONG, role), paint(WARN, state));
    for part in message["parts"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text" | "summary") => {
                crate::terminal::say!("{}", plain(part["text"].as_str().unwrap_or_default()))
            }
            Some("tool") => print_call(part),
            _ => crate::terminal::say!("{}", paint(DIM, line(&part.to_string(), 120))),
        }
    }
    if let Some(error) = message["error"].as_object() {
        let told = error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        crate::terminal::say!("{}", paint(BAD, format!("✗ {}", line(told, 400))));
    }
}

fn print_call(call: &Value) {
    let tool = line(call["tool"].as_str().unwrap_or("?"), 64);
    let input = line(&call["input"].to_string(), 120);
    crate::terminal::say!(
        "  {} {}",
        paint(ACCENT, format!("▸ {tool}")),
        paint(DIM, input)
    );
    let state = call["settlement"]
        .as_str()
        .or(call["state"].as_str())
        .unwrap_or("?");
    let output = match &call["output"] {
        Value::Null => String::new(),
        output => line(&spoken(output), 120),
    };
    crate::terminal::say!("    {}", paint(DIM, format!("{state} {output}")));
}

/// What an output says, without its wrapping.
fn spoken(output: &Value) -> String {
    match (output["text"].as_str(), &output["value"]) {
        (Some(text), _) => text.to_owned(),
        (None, Value::Null) => output.to_string(),
        (None, value) => value.to_string(),
    }
}

fn described(item: &Value) -> String {
    let now = now_ms();
    let fields = item.as_object().into_iter().flatten();
    let words: Vec<String> = fields
        .map(|(key, value)| match (key.as_str(), value.as_u64()) {
            ("since", Some(since)) => format!("for {}", took(now.saturating_sub(since))),
            ("until" | "expires_at", Some(until)) => {
                format!("{key} in {}", took(until.saturating_sub(now)))
            }
            _ => format!("{key}={value}"),
        })
        .collect();
    line(&words.join(" "), 160)
}
