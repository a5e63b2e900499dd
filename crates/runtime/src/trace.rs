//! Traces: contexts that come from outside, are kept in the log, and go on to tools.
//!
//! A message's context is recorded with it. Every owner hangs its spans for the turn under that
//! context, so that they stand in one trace however often the turn changes hands.

use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue, Value};
use steadfast_core::command::CommandBody;
use steadfast_core::id::SessionKey;
use steadfast_core::trace::Traceparent;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Puts a span under a context, if there is one.
pub(crate) fn join(span: &Span, parent: Option<Traceparent>) {
    let Some(parent) = parent else { return };
    let context = SpanContext::new(
        TraceId::from(parent.trace),
        SpanId::from(parent.span),
        TraceFlags::new(parent.flags),
        true,
        TraceState::default(),
    );
    // Refused where spans are not exported: then there is nothing to put under it.
    let _not_exported = span.set_parent(Context::new().with_remote_span_context(context));
}

/// A span's context, where spans are exported.
pub(crate) fn context_of(span: &Span) -> Option<Traceparent> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| Traceparent {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        span: u64::from_be_bytes(context.span_id().to_bytes()),
        flags: context.trace_flags().to_u8(),
    })
}

/// The span of a message's admission; its context is what is recorded with the message.
pub(crate) fn admission(key: &SessionKey, body: &mut CommandBody) -> Span {
    let CommandBody::Submit { options, .. } = body else {
        return Span::none();
    };
    let span = tracing::info_span!("message", session = %key);
    join(&span, options.traceparent);
    options.traceparent = context_of(&span).or(options.traceparent);
    span
}

/// Sets attributes of a span as it is exported; log lines do not show them.
pub(crate) fn describe<const N: usize>(span: &Span, attributes: [(&'static str, Value); N]) {
    for (key, value) in attributes {
        span.set_attribute(key, value);
    }
}

/// Says that what a span stands for failed.
pub(crate) fn failed(span: &Span, kind: &str, message: impl Into<String>) {
    let KeyValue { key, value, .. } = KeyValue::new("error.type", kind.to_owned());
    span.set_attribute(key, value);
    span.set_status(Status::error(message.into()));
}
