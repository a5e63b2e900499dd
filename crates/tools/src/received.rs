//! An answer's bytes within a bound.

/// An answer may go on for this many times its bound before it is given up.
const FLOOD_FACTOR: u64 = 4;

/// The answer goes on far beyond its bound: nobody waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flood;

/// The beginning of an answer up to a bound. What comes after it is counted and dropped, so that a
/// long answer is still known to be complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    kept: Vec<u8>,
    bytes_total: u64,
    bytes_max: usize,
}

impl Received {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            kept: Vec::new(),
            bytes_total: 0,
            bytes_max,
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), Flood> {
        let room = self.bytes_max.saturating_sub(self.kept.len());
        let fits = chunk.get(..room).unwrap_or(chunk);
        self.kept.extend_from_slice(fits);
        self.bytes_total = self.bytes_total.saturating_add(chunk.len() as u64);
        let flood = (self.bytes_max as u64).saturating_mul(FLOOD_FACTOR);
        if self.bytes_total > flood {
            return Err(Flood);
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes_total == 0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// The kept bytes as text; a character cut in two at the bound is dropped.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }

    /// What the model is told when the end was dropped.
    pub(crate) fn truncation(&self) -> Option<String> {
        let kept = self.kept.len() as u64;
        (kept < self.bytes_total).then(|| {
            format!(
                "the answer has {} bytes, of which only the first {kept} were kept",
                self.bytes_total
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_kept_and_the_rest_counted_up_to_a_flood() {
        let mut received = Received::new(4);
        assert_eq!(received.push(b"abc"), Ok(()));
        assert_eq!(
            (received.text(), received.truncation()),
            ("abc".to_owned(), None)
        );
        assert_eq!(received.push(b"defg"), Ok(()));
        assert_eq!(received.text(), "abcd");
        assert_eq!(
            received.truncation().as_deref(),
            Some("the answer has 7 bytes, of which only the first 4 were kept")
        );
        assert_eq!(received.push(&[0; 9]), Ok(()));
        assert_eq!(received.push(&[0; 1]), Err(Flood));
    }
}
