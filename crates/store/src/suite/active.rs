//! The index of owned sessions.

use steadfast_core::id::Timestamp;

use super::samples::{node, session, session_of};
use super::{Outcome, Subject};
use crate::active::ActiveEntry;

/// Entries are listed by node, in the order of their sessions, at once and for every node.
pub async fn entries_are_listed_in_order(subject: Subject) -> Outcome {
    let owner = node("owner")?;
    let mut entries = Vec::new();
    for name in ["b", "a", "a-1", "B", "c", "a_"] {
        for tenant in ["t", "t-1"] {
            let key = session_of(tenant, name)?;
            let at = Timestamp(1_000 + entries.len() as u64);
            let version = subject.stores.active.add(&owner, &key, at).await?;
            entries.push(ActiveEntry {
                node: owner.clone(),
                session: key,
                at,
                version,
            });
        }
    }
    entries.sort_by(|a, b| a.session.cmp(&b.session));
    let active = &subject.peer.active;
    assert_eq!(active.entries(&owner, None, 100).await?, entries);
    for limit in 0..=entries.len() + 1 {
        let mut after = None;
        for start in 0..=entries.len() {
            let page = active.entries(&owner, after, limit).await?;
            let end = entries.len().min(start + limit);
            assert_eq!(Some(page.as_slice()), entries.get(start..end));
            after = entries.get(start).map(|entry| &entry.session).or(after);
        }
    }
    Ok(())
}

/// The nodes are those that have entries.
pub async fn nodes_are_those_with_entries(subject: Subject) -> Outcome {
    let active = &subject.stores.active;
    let (one, other, none) = (node("n1")?, node("n-1")?, node("n")?);
    assert_eq!(active.nodes().await?, []);
    assert_eq!(active.entries(&none, None, 10).await?, []);
    let key = session("a")?;
    let version = active.add(&one, &key, Timestamp(1)).await?;
    active.add(&other, &key, Timestamp(2)).await?;
    active.add(&other, &session("b")?, Timestamp(3)).await?;
    let mut nodes = subject.peer.active.nodes().await?;
    nodes.sort();
    assert_eq!(nodes, [other.clone(), one.clone()]);
    active.remove(&one, &key, version).await?;
    assert_eq!(subject.peer.active.nodes().await?, [other]);
    assert_eq!(active.entries(&one, None, 10).await?, []);
    Ok(())
}

/// An entry that was written anew is not removed by who knows only the version before.
pub async fn a_newer_entry_is_not_removed(subject: Subject) -> Outcome {
    let active = &subject.stores.active;
    let (owner, key) = (node("owner")?, session("a")?);
    let first = active.add(&owner, &key, Timestamp(1)).await?;
    let second = subject.peer.active.add(&owner, &key, Timestamp(2)).await?;
    assert!(second > first, "{second} after {first}");
    let entry = ActiveEntry {
        node: owner.clone(),
        session: key.clone(),
        at: Timestamp(2),
        version: second,
    };
    active.remove(&owner, &key, first).await?;
    assert_eq!(active.entries(&owner, None, 10).await?, [entry]);
    for _ in 0..2 {
        active.remove(&owner, &key, second).await?;
        assert_eq!(active.entries(&owner, None, 10).await?, []);
    }
    let third = active.add(&owner, &key, Timestamp(3)).await?;
    assert!(third > second, "{third} after {second}");
    active.remove(&owner, &key, second).await?;
    assert_eq!(active.entries(&owner, None, 10).await?.len(), 1);
    Ok(())
}

/// Removing one session's entry leaves the neighbours.
pub async fn entries_are_removed_alone(subject: Subject) -> Outcome {
    let active = &subject.stores.active;
    let (owner, other) = (node("owner")?, node("other")?);
    let keys = [session("a")?, session("a-1")?, session_of("u", "a")?];
    let mut newest = 0;
    for key in &keys {
        newest = active.add(&owner, key, Timestamp(1)).await?;
    }
    newest = newest.max(active.add(&other, &keys[0], Timestamp(1)).await?);
    active.remove(&owner, &keys[0], newest).await?;
    let left = active.entries(&owner, None, 10).await?;
    let left: Vec<_> = left.into_iter().map(|entry| entry.session).collect();
    assert_eq!(left, keys[1..]);
    assert_eq!(active.entries(&other, None, 10).await?.len(), 1);
    Ok(())
}
