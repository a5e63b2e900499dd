//! A live message: who sends, its number among his messages of the session, and a frame or nothing,
//! which says that frames were lost.

/// One live message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) sender: u64,
    pub(crate) number: u64,
    pub(crate) frame: Option<&'a [u8]>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn write(&self) -> Vec<u8> {
        let frame = self.frame.unwrap_or_default();
        let mut bytes = Vec::with_capacity(16 + frame.len());
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.extend_from_slice(frame);
        bytes
    }

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (sender, rest) = bytes.split_first_chunk::<8>()?;
        let (number, frame) = rest.split_first_chunk::<8>()?;
        Some(Self {
            sender: u64::from_be_bytes(*sender),
            number: u64::from_be_bytes(*number),
            frame: (!frame.is_empty()).then_some(frame),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_comes_back() {
        for frame in [None, Some(&b"frame"[..])] {
            let envelope = Envelope {
                sender: u64::MAX,
                number: 7,
                frame,
            };
            assert_eq!(Envelope::read(&envelope.write()), Some(envelope));
        }
        assert_eq!(Envelope::read(b"too short"), None);
    }
}
