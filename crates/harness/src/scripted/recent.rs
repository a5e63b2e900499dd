//! Long scripts, parsed once and not for each of their steps.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use steadfast_core::input::ModelFailure;

use super::script::{self, Step};

/// What a message says is to be played.
pub(super) type Script = Arc<Vec<Step>>;

/// A message below this is parsed again each time: that takes no time to speak of.
const LONG_BYTES: usize = 4 * 1024;
/// So many long scripts are remembered; the one that was not used for longest is forgotten.
const SCRIPTS_MAX: usize = 8;

/// The long scripts that were played last, the newest last.
#[derive(Debug, Default)]
pub(super) struct RecentScripts(Mutex<VecDeque<(String, Script)>>);

impl RecentScripts {
    /// The script in a message, if there is one.
    pub(super) fn parsed(&self, text: &str) -> Result<Option<Script>, ModelFailure> {
        if text.len() < LONG_BYTES {
            return Ok(script::parse(text)?.map(Arc::new));
        }
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = recent.iter().position(|(known, _)| known == text)
            && let Some((known, steps)) = recent.remove(found)
        {
            recent.push_back((known, Arc::clone(&steps)));
            return Ok(Some(steps));
        }
        let Some(steps) = script::parse(text)?.map(Arc::new) else {
            return Ok(None);
        };
        if recent.len() == SCRIPTS_MAX {
            recent.pop_front();
        }
        recent.push_back((text.to_owned(), Arc::clone(&steps)));
        Ok(Some(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_script_is_parsed_once_while_it_is_used() {
        let recent = RecentScripts::default();
        let script =
            |n: usize| format!("SCRIPT: [{{\"text\": \"{n} {}\"}}]", "x".repeat(LONG_BYTES));
        let first = recent.parsed(&script(0)).unwrap().unwrap();
        for n in 1..2 * SCRIPTS_MAX {
            let again = recent.parsed(&script(0)).unwrap().unwrap();
            assert!(Arc::ptr_eq(&first, &again), "{n}");
            recent.parsed(&script(n)).unwrap();
        }
        assert_eq!(recent.0.lock().unwrap().len(), SCRIPTS_MAX);
        assert_eq!(recent.parsed(&"x".repeat(2 * LONG_BYTES)).unwrap(), None);
    }
}
