//! Counters in the text format of Prometheus. Labels come from fixed sets: routes, methods,
//! status codes, stable words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS_S: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 600.0];

/// Writes more metrics: of the runtime, of the store.
pub type MetricsSource = Arc<dyn Fn(&mut MetricsText) + Send + Sync>;

/// What the surface counts.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(String, String, u16), u64>>,
    durations: Mutex<BTreeMap<String, Histogram>>,
    admissions: Mutex<BTreeMap<&'static str, u64>>,
    streams_opened: AtomicU64,
    panics: AtomicU64,
}

#[derive(Default)]
struct Histogram {
    counts: [u64; BUCKETS_S.len()],
    count: u64,
    sum_s: f64,
}

impl Metrics {
    /// Counts a request that was answered.
    pub(crate) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let labels = (route.to_owned(), method.to_owned(), status);
        *lock(&self.requests).entry(labels).or_default() += 1;
        let mut durations = lock(&self.durations);
        let histogram = durations.entry(route.to_owned()).or_default();
        let seconds = took.as_secs_f64();
        for (count, bound) in histogram.counts.iter_mut().zip(BUCKETS_S) {
            *count += u64::from(seconds <= bound);
        }
        histogram.count += 1;
        histogram.sum_s += seconds;
    }

    /// Counts what became of a command.
    pub(crate) fn admission(&self, outcome: &'static str) {
        *lock(&self.admissions).entry(outcome).or_default() += 1;
    }

    /// Counts a stream that was opened.
    pub(crate) fn stream_opened(&self) {
        self.streams_opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a handler that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes all of them.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        text.family(
            "steadfast_http_requests_total",
            "counter",
            "Requests answered",
        );
        for ((route, method, status), count) in &*lock(&self.requests) {
            let status = status.to_string();
            let labels = [("route", &**route), ("method", method), ("status", &status)];
            text.sample("steadfast_http_requests_total", &labels, *count as f64);
        }
        let name = "steadfast_http_request_duration_seconds";
        text.family(name, "histogram", "Time until the head of the answer");
        for (route, histogram) in &*lock(&self.durations) {
            for (bound, count) in BUCKETS_S.iter().zip(histogram.counts) {
                let labels = [("route", &**route), ("le", &bound.to_string())];
                text.sample(&format!("{name}_bucket"), &labels, count as f64);
            }
            let all = [("route", &**route), ("le", "+Inf")];
            text.sample(&format!("{name}_bucket"), &all, histogram.count as f64);
            let labels = [("route", &**route)];
            text.sample(&format!("{name}_sum"), &labels, histogram.sum_s);
            text.sample(&format!("{name}_count"), &labels, histogram.count as f64);
        }
        text.family(
            "steadfast_admissions_total",
            "counter",
            "Commands by what became of them",
        );
        for (outcome, count) in &*lock(&self.admissions) {
            text.sample(
                "steadfast_admissions_total",
                &[("outcome", outcome)],
                *count as f64,
            );
        }
        let opened = self.streams_opened.load(Ordering::Relaxed);
        text.single(
            "steadfast_streams_opened_total",
            "counter",
            "Streams opened",
            opened as f64,
        );
        let panics = self.panics.load(Ordering::Relaxed);
        text.single(
            "steadfast_http_panics_total",
            "counter",
            "Handlers that panicked",
            panics as f64,
        );
    }
}

/// Text in the format of Prometheus.
#[derive(Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a family: its name, `counter`, `gauge` or `histogram`, and what it means.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample of the family begun last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_prometheus_text() {
        let metrics = Metrics::default();
        metrics.request("/v1/sessions", "GET", 200, Duration::from_millis(20));
        metrics.request("/v1/sessions", "GET", 200, Duration::from_secs(2));
        metrics.admission("decided");
        let mut text = MetricsText::default();
        metrics.write(&mut text);
        text.single("x", "gauge", "A gauge", 1.5);
        text.sample("y", &[("l", "a\"b\\c\nd")], 0.0);
        insta::assert_snapshot!(text.into_text(), @r#"
        # HELP steadfast_http_requests_total Requests answered
        # TYPE steadfast_http_requests_total counter
        steadfast_http_requests_total{route="/v1/sessions",method="GET",status="200"} 2
        # HELP steadfast_http_request_duration_seconds Time until the head of the answer
        # TYPE steadfast_http_request_duration_seconds histogram
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.001"} 0
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.005"} 0
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.01"} 0
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.05"} 1
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.1"} 1
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="0.5"} 1
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="1"} 1
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="5"} 2
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="30"} 2
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="600"} 2
        steadfast_http_request_duration_seconds_bucket{route="/v1/sessions",le="+Inf"} 2
        steadfast_http_request_duration_seconds_sum{route="/v1/sessions"} 2.02
        steadfast_http_request_duration_seconds_count{route="/v1/sessions"} 2
        # HELP steadfast_admissions_total Commands by what became of them
        # TYPE steadfast_admissions_total counter
        steadfast_admissions_total{outcome="decided"} 1
        # HELP steadfast_streams_opened_total Streams opened
        # TYPE steadfast_streams_opened_total counter
        steadfast_streams_opened_total 0
        # HELP steadfast_http_panics_total Handlers that panicked
        # TYPE steadfast_http_panics_total counter
        steadfast_http_panics_total 0
        # HELP x A gauge
        # TYPE x gauge
        x 1.5
        y{l="a\"b\\c\nd"} 0
        "#);
    }
}
