//! How the loop of an agent is steered: which tools a step has, whether it must call one, and what
//! an answer must be.

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{Finish, ModelReply, ReplyPart, Stored};
use steadfast_core::session::Turn;
use steadfast_tools::filter::ToolFilter;
use steadfast_tools::schema::{Schema, SchemaError};

/// What an agent says about its loop; by default nothing.
#[derive(Debug, Clone, Default)]
pub struct LoopControl {
    /// Whether a turn calls tools. `Required` and `Tool` hold until the turn has called one, so
    /// that it can end.
    pub tool_choice: ToolChoice,
    /// What the answer of each turn must be.
    pub answer: Option<AnswerSchema>,
    /// What holds in single steps beside that; the first that says something of a step's choice
    /// decides it, and each narrows the tools.
    pub steps: Vec<StepRule>,
}

/// What holds in some of the steps of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRule {
    /// The first step that it holds in, from 1.
    pub first: u32,
    /// The last; `None`: all that follow.
    pub last: Option<u32>,
    /// Which tools are active.
    pub filter: ToolFilter,
    /// Whether the step calls tools, whatever the turn did before.
    pub tool_choice: Option<ToolChoice>,
}

impl StepRule {
    fn holds_in(&self, step: u32) -> bool {
        self.first <= step && self.last.is_none_or(|last| step <= last)
    }
}

impl LoopControl {
    /// The rules of a turn's present step.
    pub(super) fn rules(&self, turn: &Turn) -> impl Iterator<Item = &StepRule> {
        let step = turn.step;
        self.steps.iter().filter(move |rule| rule.holds_in(step))
    }

    /// Whether the present step of a turn calls tools.
    pub(super) fn choice(&self, turn: &Turn) -> ToolChoice {
        if let Some(choice) = self.rules(turn).find_map(|rule| rule.tool_choice.as_ref()) {
            return choice.clone();
        }
        let choice = turn.options.tool_choice.as_ref();
        match choice.unwrap_or(&self.tool_choice) {
            ToolChoice::Required | ToolChoice::Tool(_) if turn.calls_total > 0 => ToolChoice::Auto,
            choice => choice.clone(),
        }
    }
}

/// A JSON Schema that an answer must fit.
#[derive(Debug, Clone)]
pub struct AnswerSchema {
    source: Arc<Value>,
    compiled: Arc<Schema>,
}

impl AnswerSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// It is not a usable JSON Schema 2020-12.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        Ok(Self {
            compiled: Arc::new(Schema::compile(&schema)?),
            source: Arc::new(schema),
        })
    }

    /// The schema as it was given.
    pub fn source(&self) -> &Arc<Value> {
        &self.source
    }

    /// What is wrong with a text as an answer, in words for the model.
    fn violation(&self, text: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is not JSON and nothing else ({error})")),
        };
        let checked = self.compiled.check(&value);
        checked.err().map(|violation| violation.to_string())
    }
}

/// Why a reply is not the answer that its turn must give. `None`: it is, or it is no answer.
pub(crate) fn unfit(control: &LoopControl, turn: &Turn, reply: &ModelReply) -> Option<String> {
    if !reply.calls.is_empty() || reply.finish != Finish::Stop {
        return None;
    }
    let of_message = turn.options.output_schema.as_ref();
    let schema = match (of_message, &control.answer) {
        (Some(schema), _) => match AnswerSchema::new(schema.clone()) {
            Ok(schema) => schema,
            // It was usable when the message was taken, by an earlier build.
            Err(error) => return Some(format!("no answer fits: {error}")),
        },
        (None, Some(schema)) => schema.clone(),
        (None, None) => return None,
    };
    schema.violation(&text(reply))
}

fn text(reply: &ModelReply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        Stored::Inline(ReplyPart::Text { text, .. }) => Some(text.as_str()),
        Stored::Inline(_) | Stored::Blob(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steadfast_core::command::MessageOptions;
    use steadfast_core::content::Usage;
    use steadfast_core::id::{CommandId, Seq, Timestamp, TurnId};
    use steadfast_core::session::TurnPhase;

    use super::*;

    fn turn(step: u32, calls_total: u64, tool_choice: Option<ToolChoice>) -> Turn {
        let options = MessageOptions {
            tool_choice,
            ..MessageOptions::default()
        };
        Turn {
            id: TurnId(Seq(3)),
            message: CommandId::new("m1").unwrap(),
            options: Arc::new(options),
            started_at: Timestamp(0),
            step,
            phase: TurnPhase::Calling { attempt: 1 },
            calls: Default::default(),
            calls_total,
            usage: Usage::default(),
            crashes_in_row: 0,
            crashes_in_turn: 0,
            hold_until: None,
            compaction_tried: false,
            answers_refused: 0,
            joined: Default::default(),
        }
    }

    #[test]
    fn a_choice_of_tools_holds_until_one_is_called_and_a_rule_as_long_as_it_says() {
        use ToolChoice::{Auto, None as Never, Required};
        let rule = |first, last, tool_choice| StepRule {
            first,
            last,
            filter: ToolFilter::default(),
            tool_choice,
        };
        let control = LoopControl {
            tool_choice: Required,
            steps: vec![
                rule(3, Some(3), Option::None),
                rule(3, Some(4), Some(ToolChoice::Tool("submit".into()))),
                rule(4, Option::None, Some(Never)),
            ],
            ..LoopControl::default()
        };
        let submit = ToolChoice::Tool("submit".into());
        let cases = [
            (turn(1, 0, Option::None), Required),
            (turn(2, 1, Option::None), Auto),
            (turn(1, 0, Some(Auto)), Auto),
            (turn(2, 1, Some(Never)), Never),
            (turn(2, 1, Some(ToolChoice::Tool("a".into()))), Auto),
            (turn(3, 2, Some(Auto)), submit.clone()),
            (turn(4, 3, Option::None), submit),
            (turn(5, 4, Option::None), Never),
        ];
        for (turn, expected) in cases {
            let said = &turn.options.tool_choice;
            assert_eq!(
                control.choice(&turn),
                expected,
                "step {} with {said:?}",
                turn.step
            );
        }
    }

    #[test]
    fn an_answer_is_one_json_value_that_fits() {
        let schema =
            json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let schema = AnswerSchema::new(schema).unwrap();
        assert_eq!(schema.violation(" {\"n\": 1}\n"), None);
        for (text, expected) in [
            ("{\"n\": \"1\"}", "n"),
            ("{}", "n"),
            ("Here it is: {\"n\": 1}", "not JSON"),
            ("```json\n{\"n\": 1}\n```", "not JSON"),
            ("{\"n\": 1} {\"n\": 2}", "not JSON"),
            ("", "not JSON"),
        ] {
            let told = schema.violation(text).unwrap();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}
