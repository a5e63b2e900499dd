//! Lists of sessions.

use steadfast_core::id::{Seq, SessionId, Timestamp};

use super::samples::{agent, session, session_of, tenant};
use super::{Failure, Outcome, Subject, comes_to_show};
use crate::directory::{DirectoryEntry, DirectoryQuery, Status};
use crate::stores::Stores;

fn entry(seq: u64, status: Status) -> Result<DirectoryEntry, Failure> {
    Ok(DirectoryEntry {
        agent: agent("support")?,
        tags: vec!["red".into(), "big".into()],
        status,
        last_turn: seq.is_multiple_of(2).then(|| "completed".into()),
        approvals: vec![format!("approval-1-{seq}-0")],
        created_at: Timestamp(1),
        updated_at: Timestamp(seq),
        seq: Seq(seq),
    })
}

fn everything() -> DirectoryQuery {
    DirectoryQuery {
        limit: 1_000,
        ..DirectoryQuery::default()
    }
}

async fn shows(
    stores: &Stores,
    tenant_name: &str,
    query: DirectoryQuery,
    expected: Vec<(SessionId, DirectoryEntry)>,
) -> Outcome {
    let owner = tenant(tenant_name)?;
    comes_to_show(expected, || async {
        Ok(stores.directory.list(&owner, query.clone()).await?)
    })
    .await
}

/// Entries are listed whole, by id, each tenant's own only.
pub async fn a_tenant_lists_its_own_sessions_by_id(subject: Subject) -> Outcome {
    let directory = &subject.stores.directory;
    let mut expected = Vec::new();
    for (seq, name) in ["c", "a", "B", "a-1", "_"].into_iter().enumerate() {
        let entry = entry(seq as u64, Status::Idle)?;
        directory.put(&session(name)?, entry.clone()).await?;
        expected.push((SessionId::new(name)?, entry));
    }
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let foreign = entry(9, Status::Running)?;
    directory
        .put(&session_of("t-1", "a")?, foreign.clone())
        .await?;
    shows(&subject.peer, "t", everything(), expected).await?;
    let foreign = vec![(SessionId::new("a")?, foreign)];
    shows(&subject.peer, "t-1", everything(), foreign).await?;
    shows(&subject.peer, "nobody", everything(), Vec::new()).await
}

/// An entry of a lower number never replaces one of a higher; one of the same number does.
pub async fn an_outdated_entry_does_not_replace_a_newer_one(subject: Subject) -> Outcome {
    let (directory, key) = (&subject.stores.directory, session("a")?);
    let puts = [
        (5, Status::Running, (5, Status::Running)),
        (3, Status::Idle, (5, Status::Running)),
        (5, Status::Waiting, (5, Status::Waiting)),
        (6, Status::Quarantined, (6, Status::Quarantined)),
        (5, Status::Running, (6, Status::Quarantined)),
    ];
    for (seq, status, newest) in puts {
        directory.put(&key, entry(seq, status)?).await?;
        let expected = vec![(key.session.clone(), entry(newest.0, newest.1)?)];
        shows(&subject.peer, "t", everything(), expected).await?;
    }
    Ok(())
}

/// A removed entry is not listed; a session made again is.
pub async fn a_removed_entry_is_gone(subject: Subject) -> Outcome {
    let (directory, key) = (&subject.stores.directory, session("a")?);
    directory.remove(&key).await?;
    directory.put(&key, entry(4, Status::Idle)?).await?;
    let neighbour = entry(4, Status::Idle)?;
    directory.put(&session("b")?, neighbour.clone()).await?;
    let rest = vec![(SessionId::new("b")?, neighbour)];
    for _ in 0..2 {
        directory.remove(&key).await?;
        shows(&subject.peer, "t", everything(), rest.clone()).await?;
    }
    let again = entry(7, Status::Running)?;
    directory.put(&key, again.clone()).await?;
    let both = [vec![(key.session.clone(), again)], rest].concat();
    shows(&subject.peer, "t", everything(), both).await
}

/// Filters hold together, and pages go on after an id.
pub async fn lists_are_filtered_and_paged(subject: Subject) -> Outcome {
    let directory = &subject.stores.directory;
    let statuses = [Status::Idle, Status::Running, Status::Waiting];
    let mut all = Vec::new();
    for n in 0..12_usize {
        let mut entry = entry(n as u64, statuses[n % 3])?;
        entry.agent = agent(["support", "support-2"][n % 2])?;
        entry.tags = [vec![], vec!["red".into()], vec!["re".into(), "red".into()]][n % 3].clone();
        let key = session(&format!("s{n:02}"))?;
        directory.put(&key, entry.clone()).await?;
        all.push((key.session, entry));
    }
    let queries = [
        everything(),
        DirectoryQuery {
            agent: Some(agent("support")?),
            ..everything()
        },
        DirectoryQuery {
            status: Some(Status::Running),
            ..everything()
        },
        DirectoryQuery {
            tag: Some("re".into()),
            ..everything()
        },
        DirectoryQuery {
            agent: Some(agent("support-2")?),
            status: Some(Status::Waiting),
            tag: Some("red".into()),
            ..everything()
        },
        DirectoryQuery {
            tag: Some("blue".into()),
            ..everything()
        },
    ];
    for query in queries {
        let matching: Vec<_> = all
            .iter()
            .filter(|(_, entry)| query.accepts(entry))
            .cloned()
            .collect();
        shows(&subject.stores, "t", query.clone(), matching.clone()).await?;
        let mut page = DirectoryQuery { limit: 2, ..query };
        for expected in matching.chunks(2) {
            shows(&subject.stores, "t", page.clone(), expected.to_vec()).await?;
            page.after = expected.last().map(|(session, _)| session.clone());
        }
        shows(&subject.stores, "t", page, Vec::new()).await?;
    }
    Ok(())
}
