//! Model providers and the native loop's model calls.
