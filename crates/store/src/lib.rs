//! What durability means: the port traits, an in-memory store with faults, the conformance suite.
