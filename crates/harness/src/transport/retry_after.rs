//! When a provider wants to be asked again.

use std::time::SystemTime;

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Milliseconds from now, from `retry-after-ms` or `retry-after` in seconds or as a date.
pub(super) fn of(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    let in_ms = text("retry-after-ms").and_then(|text| milliseconds(&text, 1.0));
    in_ms.or_else(|| {
        let text = text(RETRY_AFTER.as_str())?;
        milliseconds(&text, 1_000.0).or_else(|| until(&text, SystemTime::now()))
    })
}

fn milliseconds(text: &str, factor: f64) -> Option<u64> {
    /// A year: no number above it is meant.
    const MS_MAX: f64 = 365.0 * 24.0 * 3_600.0 * 1_000.0;
    let ms = text.parse::<f64>().ok()? * factor;
    // In this range the conversion is exact enough and cannot wrap.
    (0.0..=MS_MAX).contains(&ms).then_some(ms.ceil() as u64)
}

fn until(text: &str, now: SystemTime) -> Option<u64> {
    let date = httpdate::parse_http_date(text).ok()?;
    let wait = date.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        let headers = |list: &[(&'static str, &str)]| {
            list.iter()
                .map(|(name, value)| {
                    let name = reqwest::header::HeaderName::from_static(name);
                    (name, value.parse().unwrap())
                })
                .collect::<HeaderMap>()
        };
        for (list, expected) in [
            (&[("retry-after", "7")][..], Some(7_000)),
            (&[("retry-after", "0.25")], Some(250)),
            (
                &[("retry-after", "7"), ("retry-after-ms", "1500")],
                Some(1_500),
            ),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "1e300")], None),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(0)),
            (&[], None),
        ] {
            assert_eq!(of(&headers(list)), expected, "{list:?}");
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_767);
        assert_eq!(until("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(10_000));
    }
}
