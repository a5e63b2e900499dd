//! What bytes mean: records, envelopes, snapshots and their versions.
