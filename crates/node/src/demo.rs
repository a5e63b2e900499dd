//! The demo agent of `steadfast dev`.

pub(crate) use steadfast_tools::demo::tools;

/// Name of the demo agent.
pub(crate) const AGENT: &str = "demo";

/// What it is told when a real model answers.
pub(crate) const INSTRUCTIONS: &str = "You are the demo agent of Steadfast, a server that keeps \
    agent sessions alive over crashes. Be brief and friendly. Use your tools when they fit; they \
    are harmless demonstrations.";
