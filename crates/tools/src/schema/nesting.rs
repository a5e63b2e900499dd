//! How deep the check of a value goes for each level of the value.
//!
//! Checking recurses: once for each level of the value and, within a level, along references and
//! combinations (`$ref`, `allOf`, `not`, ...) that apply to the same place. A hostile or careless
//! schema makes that second factor large and would overflow the stack, which ends the process.
//! So it is measured when the schema is compiled.

use std::collections::BTreeMap;
use std::ptr;

use serde_json::{Map, Value};

use super::{SchemaError, place};

/// Schemas that apply one after another to the same place of a value, at most.
pub(super) const CHAIN_MAX: usize = 64;

/// What a reference to the published meta-schemas counts; they are known to be shallower.
const META_SCHEMA_CHAIN: usize = 8;

/// The longest chain of schemas that apply to the same place; 1 for a flat schema.
pub(super) fn longest_chain(root: &Value) -> Result<usize, SchemaError> {
    let subschemas = objects(root);
    let mut nesting = Nesting {
        root,
        named: names(&subschemas),
        measured: BTreeMap::new(),
    };
    let mut longest = 1;
    for (at, object) in &subschemas {
        longest = longest.max(nesting.chain(object, at)?);
    }
    Ok(longest)
}

/// Every object in the schema with its pointer, schemas and others: a few that are no schemas do
/// no harm, since nothing applies them.
fn objects(root: &Value) -> Vec<(String, &Map<String, Value>)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), root)];
    while let Some((at, value)) = open.pop() {
        match value {
            Value::Object(fields) => {
                open.extend(fields.iter().map(|(name, field)| (below(&at, name), field)));
                found.push((at, fields));
            }
            Value::Array(items) => {
                let numbered = items.iter().enumerate();
                open.extend(numbered.map(|(index, item)| (format!("{at}/{index}"), item)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

fn below(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// What a reference may name other than by pointer: `#anchor` and embedded ids.
fn names<'a>(
    subschemas: &[(String, &'a Map<String, Value>)],
) -> BTreeMap<String, &'a Map<String, Value>> {
    let mut named = BTreeMap::new();
    for (_, object) in subschemas {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = object.get(keyword).and_then(Value::as_str) {
                named.insert(format!("#{anchor}"), *object);
            }
        }
        if let Some(id) = object.get("$id").and_then(Value::as_str) {
            named.insert(id.to_owned(), *object);
        }
    }
    named
}

enum Measured {
    /// Its chain is being followed: to meet it again is to go in a circle.
    Open,
    Chain(usize),
}

struct Nesting<'a> {
    root: &'a Value,
    named: BTreeMap<String, &'a Map<String, Value>>,
    /// By address, which is stable while the schema is borrowed.
    measured: BTreeMap<usize, Measured>,
}

impl<'a> Nesting<'a> {
    /// The chain that begins at this schema. Recursion ends with [`CHAIN_MAX`].
    fn chain(&mut self, object: &'a Map<String, Value>, at: &str) -> Result<usize, SchemaError> {
        self.chain_within(object, at, CHAIN_MAX)
    }

    fn chain_within(
        &mut self,
        object: &'a Map<String, Value>,
        at: &str,
        left: usize,
    ) -> Result<usize, SchemaError> {
        let address = ptr::from_ref(object) as usize;
        match self.measured.get(&address) {
            Some(Measured::Chain(length)) if *length <= left => return Ok(*length),
            Some(Measured::Chain(_)) => return Err(too_long(at)),
            Some(Measured::Open) => {
                return Err(SchemaError::Invalid {
                    at: place(at),
                    reason: "the schema applies itself again at the same place".to_owned(),
                });
            }
            None => {}
        }
        if left == 0 {
            return Err(too_long(at));
        }
        self.measured.insert(address, Measured::Open);
        let mut longest = 0;
        for keyword in ["$ref", "$dynamicRef"] {
            if let Some(reference) = object.get(keyword).and_then(Value::as_str) {
                let at = below(at, keyword);
                let length = match self.resolve(reference, &at)? {
                    Some(target) => self.chain_within(target, &at, left - 1)?,
                    None => META_SCHEMA_CHAIN,
                };
                longest = longest.max(length);
            }
        }
        for (at, applied) in applied_in_place(object, at) {
            longest = longest.max(self.chain_within(applied, &at, left - 1)?);
        }
        self.measured.insert(address, Measured::Chain(longest + 1));
        Ok(longest + 1)
    }

    /// The schema that a reference names; `None` for a published meta-schema or a boolean schema.
    fn resolve(
        &self,
        reference: &str,
        at: &str,
    ) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
        if let Some(named) = self.named.get(reference) {
            return Ok(Some(*named));
        }
        if reference.starts_with("https://json-schema.org/draft/") {
            return Ok(None);
        }
        match reference
            .strip_prefix('#')
            .and_then(|pointer| self.root.pointer(pointer))
        {
            Some(Value::Object(target)) => Ok(Some(target)),
            Some(_) => Ok(None),
            None => Err(SchemaError::Invalid {
                at: place(at),
                reason: format!(
                    "the reference {reference:?} names nothing in this schema; \
                     references to other documents are not followed"
                ),
            }),
        }
    }
}

/// The schemas that a schema applies to the same place of the value.
fn applied_in_place<'a>(
    object: &'a Map<String, Value>,
    at: &str,
) -> Vec<(String, &'a Map<String, Value>)> {
    let mut applied = Vec::new();
    for keyword in ["not", "if", "then", "else"] {
        if let Some(Value::Object(one)) = object.get(keyword) {
            applied.push((below(at, keyword), one));
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(several)) = object.get(keyword) {
            for (index, one) in several.iter().enumerate() {
                if let Value::Object(one) = one {
                    applied.push((format!("{}/{index}", below(at, keyword)), one));
                }
            }
        }
    }
    if let Some(Value::Object(by_name)) = object.get("dependentSchemas") {
        for (name, one) in by_name {
            if let Value::Object(one) = one {
                applied.push((below(&below(at, "dependentSchemas"), name), one));
            }
        }
    }
    applied
}

fn too_long(at: &str) -> SchemaError {
    SchemaError::Invalid {
        at: place(at),
        reason: format!("more than {CHAIN_MAX} schemas apply to the same place, one by another"),
    }
}
