//! Values like a sample, changed at random in many places.
//!
//! The change is made on JSON, and kept only if it still is a value of the type: so every kind and
//! every field is varied without a list of them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Random choices, as proptest drew them; zeros when they are used up.
pub(crate) struct Draws {
    drawn: std::vec::IntoIter<u64>,
}

impl Draws {
    pub(crate) fn new(drawn: Vec<u64>) -> Self {
        Self {
            drawn: drawn.into_iter(),
        }
    }

    fn next(&mut self) -> u64 {
        self.drawn.next().unwrap_or_default()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn is_empty(&self) -> bool {
        self.drawn.as_slice().is_empty()
    }

    fn text(&mut self) -> String {
        let alphabet = [
            'a', 'Z', '0', '_', '-', ' ', '"', '\0', '\n', 'ß', '世', '🦀',
        ];
        let length = [0, 1, 7, 31, 32, 255, 256, 1_000][self.below(8)];
        let mut text = String::new();
        while text.chars().count() < length {
            let index = (self.next() as usize + text.len()) % alphabet.len();
            text.push(alphabet[index]);
            text.push_str(&"x".repeat(length / 8));
        }
        text
    }

    fn json(&mut self, levels: usize) -> Value {
        match self.below(if levels == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.next().is_multiple_of(2)),
            2 => json!(self.next() >> (self.next() % 64)),
            3 => json!((self.next() as i64) >> (self.next() % 64)),
            4 => json!(f64::from_bits(self.next() >> 2)),
            5 => json!(self.text()),
            6 => (0..self.below(4)).map(|_| self.json(levels - 1)).collect(),
            _ => {
                let fields = (0..self.below(4)).map(|_| (self.text(), self.json(levels - 1)));
                Value::Object(fields.collect())
            }
        }
    }
}

/// A value like `sample`, changed as long as there are draws.
pub(crate) fn varied<T: Serialize + DeserializeOwned>(sample: &T, draws: &mut Draws) -> T {
    let mut kept = serde_json::to_value(sample).unwrap();
    while !draws.is_empty() {
        let mut changed = kept.clone();
        let places = count(&changed);
        let place = draws.below(places);
        change(&mut changed, &mut { place }, draws);
        if serde_json::from_value::<T>(changed.clone()).is_ok() {
            kept = changed;
        }
    }
    serde_json::from_value(kept).unwrap()
}

/// How many places there are to change.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Changes the value at `place`, counted from the outside in; whether it was found.
fn change(value: &mut Value, place: &mut usize, draws: &mut Draws) -> bool {
    if *place == 0 {
        change_here(value, draws);
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(values) => values.iter_mut().any(|value| change(value, place, draws)),
        Value::Object(fields) => fields.values_mut().any(|value| change(value, place, draws)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn change_here(value: &mut Value, draws: &mut Draws) {
    match (&mut *value, draws.below(3)) {
        (Value::Array(values), 0) if !values.is_empty() => {
            let copied = values[draws.below(values.len())].clone();
            values.push(copied);
        }
        (Value::Array(values), 1) if !values.is_empty() => {
            values.remove(draws.below(values.len()));
        }
        (Value::Number(_), 0 | 1) => *value = json!(draws.next() >> (draws.next() % 64)),
        (Value::String(_), 0 | 1) => *value = json!(draws.text()),
        _ => *value = draws.json(3),
    }
}
