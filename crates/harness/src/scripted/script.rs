//! The language of scripts.

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::content::Usage;
use steadfast_core::input::ModelFailure;

use crate::failure;

/// Comes before a script in a message.
const MARK: &str = "SCRIPT:";

/// One reply of the model.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Step {
    /// Says this.
    pub(super) text: Option<String>,
    /// Thinks this first.
    pub(super) reasoning: Option<String>,
    /// Pieces in which text and reasoning come.
    #[serde(deserialize_with = "chunks")]
    pub(super) chunks: usize,
    /// Seconds between pieces.
    #[serde(deserialize_with = "seconds")]
    pub(super) delay: f64,
    /// Calls this tool.
    tool: Option<String>,
    /// With this input.
    input: Option<Value>,
    /// Calls these tools at once.
    tools: Vec<ScriptedCall>,
    /// Fails like a provider that answers so.
    status: Option<u16>,
    /// In so many attempts; the next one goes on. Absent: in all.
    times: Option<u32>,
    /// Is silent for so many seconds first.
    #[serde(deserialize_with = "some_seconds")]
    pub(super) hang: Option<f64>,
    /// Costs this.
    usage: Option<ScriptedUsage>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    /// Name of the tool.
    pub(super) tool: String,
    /// Arguments.
    #[serde(default = "no_arguments")]
    pub(super) input: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptedUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

fn chunks<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let chunks = usize::deserialize(deserializer)?;
    if (1..=10_000).contains(&chunks) {
        Ok(chunks)
    } else {
        Err(serde::de::Error::custom("`chunks` is 1 to 10000"))
    }
}

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    if seconds >= 0.0 {
        Ok(seconds)
    } else {
        Err(serde::de::Error::custom("seconds are not negative"))
    }
}

fn some_seconds<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    seconds(deserializer).map(Some)
}

impl Step {
    /// Says a text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Says a text in pieces.
    pub(super) fn spoken(text: impl Into<String>, chunks: usize, delay: f64) -> Self {
        Self {
            chunks,
            delay,
            ..Self::text(text)
        }
    }

    /// Calls tools.
    pub(super) fn calling(tools: Vec<ScriptedCall>) -> Self {
        Self {
            tools,
            ..Self::default()
        }
    }

    /// The status with which this attempt fails.
    pub(super) fn failure_status(&self, attempt: u32) -> Option<u16> {
        self.status
            .filter(|_| self.times.is_none_or(|times| attempt <= times))
    }

    /// What it calls, in order.
    pub(super) fn calls(&self) -> impl Iterator<Item = ScriptedCall> {
        let single = self.tool.clone().map(|tool| ScriptedCall {
            tool,
            input: self.input.clone().unwrap_or_else(no_arguments),
        });
        single.into_iter().chain(self.tools.clone())
    }

    /// What it costs, by its own words or as estimated.
    pub(super) fn usage(&self, estimated: Usage) -> Usage {
        let told = self.usage.unwrap_or_default();
        Usage {
            input_tokens: told.input_tokens.unwrap_or(estimated.input_tokens),
            output_tokens: told.output_tokens.unwrap_or(estimated.output_tokens),
            cache_read_tokens: told.cache_read_tokens.unwrap_or_default(),
            cache_write_tokens: told.cache_write_tokens.unwrap_or_default(),
            reasoning_tokens: told.reasoning_tokens.unwrap_or_default(),
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.input.is_some() && self.tool.is_none() {
            return Err("`input` stands without `tool`");
        }
        if self.times.is_some() && self.status.is_none() {
            return Err("`times` stands without `status`");
        }
        if self
            .status
            .is_some_and(|status| !(300..600).contains(&status))
        {
            return Err("`status` is a status of failure, 300 to 599");
        }
        Ok(())
    }
}

/// The script in a text, if it has one.
pub(super) fn parse(text: &str) -> Result<Option<Vec<Step>>, ModelFailure> {
    let Some((_, rest)) = text.split_once(MARK) else {
        return Ok(None);
    };
    // Whatever follows the array is conversation.
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let array = match values.next() {
        Some(Ok(Value::Array(array))) => array,
        Some(Ok(_)) | None => return Err(bad_script("a JSON array of steps follows `SCRIPT:`")),
        Some(Err(error)) => return Err(bad_script(error)),
    };
    let mut steps = Vec::with_capacity(array.len());
    for (index, value) in array.into_iter().enumerate() {
        let step: Step = serde_json::from_value(value)
            .map_err(|error| bad_script(format_args!("step {index}: {error}")))?;
        step.check()
            .map_err(|error| bad_script(format_args!("step {index}: {error}")))?;
        steps.push(step.with_something_to_say());
    }
    Ok(Some(steps))
}

impl Step {
    /// A step that only waits says that it is back, so that its end can be seen.
    fn with_something_to_say(mut self) -> Self {
        let only_waits = self.hang.is_some()
            && self.status.is_none()
            && self.text.is_none()
            && self.reasoning.is_none()
            && self.calls().next().is_none();
        if only_waits {
            self.text = Some("I am back.".to_owned());
        }
        self
    }
}

fn bad_script(detail: impl std::fmt::Display) -> ModelFailure {
    failure::fatal(
        "bad_script",
        format!("the script cannot be followed: {detail}"),
    )
}
