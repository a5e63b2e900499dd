//! Durations in queries: `30s`, `500ms`, `2m`.

/// Milliseconds of a duration; a number without unit counts seconds.
pub(crate) fn parse_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("30s", Some(30_000)),
            ("30", Some(30_000)),
            ("0", Some(0)),
            ("250ms", Some(250)),
            ("2m", Some(120_000)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("1h", None),
            ("30 s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615m", None),
        ] {
            assert_eq!(parse_ms(text), ms, "{text}");
        }
    }
}
