//! Names of streams and subjects.
//!
//! Ids are of `[A-Za-z0-9_-]`, so each is a token of a subject as it stands: no two are alike, none
//! holds a separator or a wildcard. What is not an id is encoded by [`token`].

use steadfast_core::content::BlobHash;
use steadfast_core::id::{CallId, Epoch, NodeId, SessionId, SessionKey, TenantId};
use steadfast_store::jobs::JobName;
use xxhash_rust::xxh3::xxh3_64;

/// All names of one store.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    root: String,
    streams: String,
    pub(crate) partitions: u32,
}

impl Names {
    pub(crate) fn new(prefix: &str, partitions: u32) -> Self {
        Self {
            root: prefix.to_owned(),
            streams: prefix.to_ascii_uppercase(),
            partitions: partitions.max(1),
        }
    }

    pub(crate) fn partition(&self, session: &SessionKey) -> u32 {
        let hash = xxh3_64(session.to_string().as_bytes());
        // The remainder is below a u32.
        (hash % u64::from(self.partitions)) as u32
    }

    /// `<t>.<s>`.
    fn tokens(session: &SessionKey) -> String {
        format!("{}.{}", session.tenant, session.session)
    }

    /// `<root>.<kind>.<p>.<t>.<s>`.
    fn of(&self, kind: &str, session: &SessionKey) -> String {
        let partition = self.partition(session);
        format!("{}.{kind}.{partition}.{}", self.root, Self::tokens(session))
    }

    /// `<root>.<rest>`, for patterns of whole streams.
    pub(crate) fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.root)
    }

    /// `<ROOT>_<rest>`.
    pub(crate) fn stream(&self, rest: &str) -> String {
        format!("{}_{rest}", self.streams)
    }

    pub(crate) fn log_stream(&self, session: &SessionKey) -> String {
        self.stream(&format!("LOG_{}", self.partition(session)))
    }

    pub(crate) fn log(&self, session: &SessionKey) -> String {
        self.of("log", session)
    }

    /// Where a stored Record is told of.
    pub(crate) fn committed(&self, session: &SessionKey) -> String {
        format!("{}.committed.{}", self.root, Self::tokens(session))
    }

    pub(crate) fn mail_stream(&self, session: &SessionKey) -> String {
        self.stream(&format!("MBOX_{}", self.partition(session)))
    }

    /// One lane, or all with `*`.
    pub(crate) fn mail(&self, session: &SessionKey, lane: &str) -> String {
        format!("{}.{lane}", self.of("mbox", session))
    }

    pub(crate) fn timer_stream(&self) -> String {
        self.stream("TIMERS")
    }

    pub(crate) fn timer(&self, session: &SessionKey, epoch: Epoch) -> String {
        format!("{}.{epoch}", self.of("timer", session))
    }

    pub(crate) fn due(&self, session: &SessionKey) -> String {
        self.of("due", session)
    }

    pub(crate) fn active_stream(&self) -> String {
        self.stream("ACTIVE")
    }

    pub(crate) fn active(&self, node: &NodeId, session: &SessionKey) -> String {
        let partition = self.partition(session);
        let tokens = Self::tokens(session);
        format!("{}.active.{node}.{partition}.{tokens}", self.root)
    }

    pub(crate) fn active_of_node(&self, node: &NodeId) -> String {
        format!("{}.active.{node}.>", self.root)
    }

    /// The name of a node that has, or had, entries.
    pub(crate) fn owner(&self, node: &str) -> String {
        format!("{}.owner.{node}", self.root)
    }

    pub(crate) fn blob_stream(&self) -> String {
        self.stream("BLOBS")
    }

    pub(crate) fn blob(&self, session: &SessionKey, hash: BlobHash) -> String {
        format!("{}.{hash}", self.of("blob", session))
    }

    pub(crate) fn blobs(&self, session: &SessionKey) -> String {
        format!("{}.>", self.of("blob", session))
    }

    pub(crate) fn snapshot_stream(&self) -> String {
        self.stream("SNAPSHOTS")
    }

    pub(crate) fn snapshot(&self, session: &SessionKey) -> String {
        self.of("snapshot", session)
    }

    pub(crate) fn live(&self, session: &SessionKey) -> String {
        format!("{}.live.{}", self.root, Self::tokens(session))
    }

    /// Where a renewed lease is told of; `*` is those of all nodes.
    pub(crate) fn lease(&self, node: &str) -> String {
        format!("{}.lease.{node}", self.root)
    }

    pub(crate) fn door(&self, node: &NodeId) -> String {
        format!("{}.node.{node}", self.root)
    }

    pub(crate) fn tool_stream(&self) -> String {
        self.stream("TOOLS")
    }

    /// `<root>.tool.<p>.<name>.<t>.<s>.<job>`.
    pub(crate) fn job(&self, job: &JobName) -> String {
        let JobName { tool, session, id } = job;
        let partition = self.partition(session);
        let tokens = Self::tokens(session);
        format!("{}.tool.{partition}.{tool}.{tokens}.{id}", self.root)
    }

    pub(crate) fn jobs_of_tool(&self, tool: &str) -> String {
        format!("{}.tool.*.{tool}.>", self.root)
    }

    /// The job of a subject; `None` when it is no such subject.
    pub(crate) fn job_of(&self, subject: &str) -> Option<JobName> {
        let rest = subject.strip_prefix(&self.root)?.strip_prefix(".tool.")?;
        let mut tokens = rest.splitn(5, '.').skip(1);
        let name = JobName {
            tool: tokens.next()?.to_owned(),
            session: session_key(tokens.next()?, tokens.next()?)?,
            id: tokens.next()?.parse().ok()?,
        };
        (self.job(&name) == subject).then_some(name)
    }

    /// Where a call that is not wanted any more is told of.
    pub(crate) fn cancel(&self, session: &SessionKey, call: CallId) -> String {
        format!("{}.cancel.{}.{call}", self.root, Self::tokens(session))
    }

    pub(crate) fn cancels(&self) -> String {
        format!("{}.cancel.*.*.*", self.root)
    }

    pub(crate) fn progress(&self, session: &SessionKey) -> String {
        format!("{}.progress.{}", self.root, Self::tokens(session))
    }

    pub(crate) fn dead(&self) -> String {
        self.subject("dead")
    }

    /// Stream behind a bucket.
    pub(crate) fn bucket_stream(&self, bucket: &str) -> String {
        format!("KV_{}", self.stream(bucket))
    }

    /// Subject of a key in a bucket; `>` is all of them.
    pub(crate) fn bucket_key(&self, bucket: &str, key: &str) -> String {
        format!("$KV.{}.{key}", self.stream(bucket))
    }

    pub(crate) fn directory_key(&self, session: &SessionKey) -> String {
        self.bucket_key("DIRECTORY", &Self::tokens(session))
    }

    pub(crate) fn directory_of_tenant(&self, tenant: &TenantId) -> String {
        self.bucket_key("DIRECTORY", &format!("{tenant}.>"))
    }

    /// The session of `<root>.<kind>.<p>.<t>.<s>[.<rest>]` and what follows it; `None` when it is
    /// no such subject, or of another partition than the session's.
    pub(crate) fn session_of<'a>(
        &self,
        kind: &str,
        subject: &'a str,
    ) -> Option<(SessionKey, Option<&'a str>)> {
        let rest = subject.strip_prefix(&self.root)?.strip_prefix('.')?;
        let rest = rest.strip_prefix(kind)?.strip_prefix('.')?;
        let mut tokens = rest.splitn(4, '.');
        let partition: u32 = tokens.next()?.parse().ok()?;
        let session = session_key(tokens.next()?, tokens.next()?)?;
        (partition == self.partition(&session)).then(|| (session, tokens.next()))
    }

    /// The session of an entry of the active index.
    pub(crate) fn session_of_active(&self, node: &NodeId, subject: &str) -> Option<SessionKey> {
        let kind = format!("active.{node}");
        let (session, rest) = self.session_of(&kind, subject)?;
        rest.is_none().then_some(session)
    }
}

pub(crate) fn session_key(tenant: &str, session: &str) -> Option<SessionKey> {
    Some(SessionKey {
        tenant: TenantId::new(tenant).ok()?,
        session: SessionId::new(session).ok()?,
    })
}

/// Last token of a subject.
pub(crate) fn last_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(tenant: &str, name: &str) -> SessionKey {
        session_key(tenant, name).unwrap()
    }

    #[test]
    fn the_partition_of_a_session_never_changes() {
        let names = Names::new("sf", 16);
        let partitions = ["a", "b", "c", "d"].map(|name| names.partition(&session("t", name)));
        assert_eq!(partitions, [6, 4, 12, 4]);
    }

    #[test]
    fn a_subject_gives_its_session_back() {
        let names = Names::new("sf", 16);
        for key in [session("t", "a"), session("a-b", "c_D"), session("0", "9")] {
            let mail = names.mail(&key, "in");
            let expected = Some((key.clone(), Some("in")));
            assert_eq!(names.session_of("mbox", &mail), expected);
            let due = names.due(&key);
            assert_eq!(names.session_of("due", &due), Some((key.clone(), None)));
            let node = NodeId::new("n-1").unwrap();
            let entry = names.active(&node, &key);
            assert_eq!(names.session_of_active(&node, &entry), Some(key));
        }
    }

    #[test]
    fn a_subject_gives_its_job_back() {
        let names = Names::new("sf", 16);
        for id in ["1-2-0_1", "17-403-2_3_check"] {
            let job = JobName {
                tool: "send-mail".to_owned(),
                session: session("t", "a"),
                id: id.parse().unwrap(),
            };
            let subject = names.job(&job);
            assert_eq!(names.job_of(&subject), Some(job));
            assert_eq!(names.job_of(&format!("{subject}.x")), None);
        }
    }

    #[test]
    fn a_foreign_subject_gives_none() {
        let names = Names::new("sf", 16);
        let key = session("t", "a");
        let own = names.due(&key);
        let moved = own.replace("sf.due.6", "sf.due.7");
        for subject in ["", "sf.due", "sf.due.x.t.a", "sg.due.6.t.a", moved.as_str()] {
            assert_eq!(names.session_of("due", subject), None, "{subject}");
        }
    }
}
