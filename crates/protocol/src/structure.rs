//! Looks over MessagePack before anything is built from it.
//!
//! A decoder trusts lengths: one that lies makes it reserve memory for values that are not there,
//! and deep nesting makes it recurse. This walk reads only markers and lengths, keeps its own small
//! stack, and lets through exactly one complete value of bounded depth with nothing behind it. What
//! is decoded afterwards can allocate no more than its bytes are worth.

/// Nesting of values, at most; deeper bytes are corrupt, and are not written. JSON from outside is
/// capped at 128 levels by its parser, the rest is the shape of our own types. Decoding so much
/// takes less than 1 MiB of stack in an unoptimised build; a thread has 2 MiB.
pub(crate) const DEPTH_MAX: usize = 160;

/// Why bytes are not one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They end inside a value, or a length is larger than what follows.
    CutOff,
    /// More nesting than [`DEPTH_MAX`].
    TooDeep,
    /// A marker that is never written: reserved or an extension type.
    Marker(u8),
    /// Something follows the value.
    Trailing,
}

impl Fault {
    pub(crate) fn detail(self) -> String {
        match self {
            Self::CutOff => "cut off".into(),
            Self::TooDeep => format!("nested deeper than {DEPTH_MAX} levels"),
            Self::Marker(marker) => format!("marker {marker:#04x} is never written"),
            Self::Trailing => "bytes after the end".into(),
        }
    }
}

/// Passes bytes that are exactly one value.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let mut rest = bytes;
    // How many values are still to come at each level; the outermost is the value itself.
    let mut levels: Vec<u64> = vec![1];
    while let Some(left) = levels.last_mut() {
        if *left == 0 {
            levels.pop();
            continue;
        }
        *left -= 1;
        match next(&mut rest)? {
            Token::Leaf => {}
            Token::Container { values } => {
                if values > rest.len() as u64 {
                    return Err(Fault::CutOff);
                }
                if levels.len() > DEPTH_MAX {
                    return Err(Fault::TooDeep);
                }
                levels.push(values);
            }
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::Trailing)
    }
}

enum Token {
    /// A value without values in it; the walk stands behind it.
    Leaf,
    /// A list or map; its values follow.
    Container { values: u64 },
}

fn next(rest: &mut &[u8]) -> Result<Token, Fault> {
    let marker = take(rest, 1)?;
    match marker {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => Ok(Token::Leaf),
        0x80..=0x8f => Ok(map(marker & 0x0f)),
        0x90..=0x9f => Ok(Token::Container {
            values: marker & 0x0f,
        }),
        0xa0..=0xbf => skip(rest, marker & 0x1f),
        0xc4 | 0xd9 => skip_long(rest, 1),
        0xc5 | 0xda => skip_long(rest, 2),
        0xc6 | 0xdb => skip_long(rest, 4),
        0xcc | 0xd0 => skip(rest, 1),
        0xcd | 0xd1 => skip(rest, 2),
        0xca | 0xce | 0xd2 => skip(rest, 4),
        0xcb | 0xcf | 0xd3 => skip(rest, 8),
        0xdc => Ok(Token::Container {
            values: take(rest, 2)?,
        }),
        0xdd => Ok(Token::Container {
            values: take(rest, 4)?,
        }),
        0xde => Ok(map(take(rest, 2)?)),
        0xdf => Ok(map(take(rest, 4)?)),
        // 0xc1 is reserved; 0xc7 to 0xc9 and 0xd4 to 0xd8 are extension types.
        _ => Err(Fault::Marker(marker as u8)),
    }
}

fn map(pairs: u64) -> Token {
    Token::Container { values: pairs * 2 }
}

fn skip_long(rest: &mut &[u8], length_bytes: usize) -> Result<Token, Fault> {
    let length = take(rest, length_bytes)?;
    skip(rest, length)
}

fn skip(rest: &mut &[u8], length: u64) -> Result<Token, Fault> {
    let length = usize::try_from(length).map_err(|_| Fault::CutOff)?;
    *rest = rest.get(length..).ok_or(Fault::CutOff)?;
    Ok(Token::Leaf)
}

/// Reads a big-endian number of 1, 2 or 4 bytes.
fn take(rest: &mut &[u8], bytes: usize) -> Result<u64, Fault> {
    let (head, tail) = rest.split_at_checked(bytes).ok_or(Fault::CutOff)?;
    *rest = tail;
    Ok(head
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = vec![0x91; levels];
        bytes.push(0xc0);
        bytes
    }

    #[test]
    fn one_value_of_every_shape_passes() {
        let values = serde_json::json!({
            "null": null, "yes": true, "no": false, "small": 1, "negative": -1, "large": u64::MAX,
            "low": i64::MIN, "middle": [200, 60_000, 5_000_000_000_u64, -200, -60_000, -5_000_000_000_i64],
            "float": 0.5, "text": "a", "texts": ["b".repeat(40), "c".repeat(300), "d".repeat(70_000)],
            "long list": vec![0; 20], "longer list": vec![0; 70_000], "empty": [[], {}],
            "map": (0..20).map(|n| (n.to_string(), n)).collect::<std::collections::BTreeMap<_, _>>(),
        });
        let bytes = rmp_serde::to_vec_named(&values).unwrap();
        assert_eq!(check(&bytes), Ok(()));
        let bytes = rmp_serde::to_vec(&rmp_serde::to_vec(&0.5_f32).unwrap()).unwrap();
        assert_eq!(check(&bytes), Ok(()));
    }

    #[test]
    fn every_truncation_is_cut_off() {
        let values =
            serde_json::json!({"list": [1, 300, 70_000, "text", {"a": 0.5}], "b": [[], {}]});
        let bytes = rmp_serde::to_vec_named(&values).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(check(&bytes[..length]), Err(Fault::CutOff), "{length}");
        }
    }

    #[test]
    fn lengths_that_lie_are_cut_off() {
        let lies: [&[u8]; 6] = [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0],
            &[0xdb, 0xff, 0xff, 0xff, 0xff, b'a'],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x82, 0xc0, 0xc0, 0xc0],
            &[0xdc, 0x00, 0x02, 0xc0],
        ];
        for lie in lies {
            assert_eq!(check(lie), Err(Fault::CutOff), "{lie:x?}");
        }
    }

    #[test]
    fn depth_ends_at_its_bound() {
        assert_eq!(check(&nested(DEPTH_MAX)), Ok(()));
        assert_eq!(check(&nested(DEPTH_MAX + 1)), Err(Fault::TooDeep));
        assert_eq!(check(&nested(1_000_000)), Err(Fault::TooDeep));
    }

    #[test]
    fn extensions_and_reserved_markers_are_refused() {
        for marker in [0xc1, 0xc7, 0xc8, 0xc9, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8] {
            assert_eq!(check(&[marker, 0, 0, 0]), Err(Fault::Marker(marker)));
        }
    }

    #[test]
    fn what_follows_the_value_is_trailing() {
        assert_eq!(check(&[0xc0, 0xc0]), Err(Fault::Trailing));
        assert_eq!(check(&[0x90, 0x90]), Err(Fault::Trailing));
    }
}
