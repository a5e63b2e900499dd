//! Following a session: one upstream for each followed session, encoded once for all followers.
//!
//! ```text
//!  Sessions::follow --> Hub: encode once --broadcast--> Subscriber --> body of a response
//!                        |  recent frames, backlog of the open step       |
//!                        +------------- join at a cursor -----------------+
//!  Sessions::follow --(only while the cursor is older than the hub's recent frames)
//! ```
//!
//! Must: give each follower every committed event after its cursor once and in order. Must never:
//! let a follower slow a session or another follower; a slow one loses its place in the broadcast
//! and joins again at its cursor.

pub(crate) mod backlog;
pub(crate) mod frame;
pub(crate) mod hub;
pub(crate) mod permit;
pub(crate) mod subscriber;
