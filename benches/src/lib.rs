//! Speed, measured.
