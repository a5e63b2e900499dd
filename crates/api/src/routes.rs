//! The routes, one file each.

pub(crate) mod agents;
pub(crate) mod all_sessions;
pub(crate) mod approvals;
pub(crate) mod blobs;
pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod chat;
pub(crate) mod chat_history;
pub(crate) mod chat_resume;
pub(crate) mod chat_stop;
pub(crate) mod command;
pub(crate) mod compact;
pub(crate) mod damage;
pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod log;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod one_session;
pub(crate) mod openapi;
pub(crate) mod receipts;
pub(crate) mod repair;
pub(crate) mod submit;
pub(crate) mod why;
