//! Claims: one holder gets a key, for ever.

use std::sync::Arc;

use futures_util::future::join_all;

use super::jobs::queue;
use super::{Outcome, Subject};
use crate::claims::{Claimed, Claims};

/// Of many that try at the same time, on both nodes, one gets it, and all others are told who.
pub async fn one_of_many_holders_gets_a_claim(subject: Subject) -> Outcome {
    let nodes = [queue(&subject.stores)?.claims, queue(&subject.peer)?.claims];
    for round in 0..10 {
        let key = format!("t.s.1-{round}-0.1");
        let holders: Vec<String> = (0..8).map(|n| format!("holder-{n}")).collect();
        let tries = holders.iter().zip(nodes.iter().cycle());
        let answers = join_all(tries.map(|(holder, claims)| claims.claim(&key, holder))).await;
        let answers: Vec<Claimed> = answers.into_iter().collect::<Result<_, _>>()?;
        let winners: Vec<&String> = holders
            .iter()
            .zip(&answers)
            .filter_map(|(holder, answer)| (*answer == Claimed::Mine).then_some(holder))
            .collect();
        let [winner] = winners.as_slice() else {
            return Err(super::Failure::new(format!("{winners:?} all won")));
        };
        let lost = Claimed::Other((*winner).clone());
        assert_eq!(answers.iter().filter(|answer| **answer == lost).count(), 7);
    }
    Ok(())
}

/// Who has a claim gets it again; nobody else does, and all are told the same.
pub async fn a_claim_is_its_holders_for_ever(subject: Subject) -> Outcome {
    let claims: Arc<dyn Claims> = queue(&subject.stores)?.claims;
    let peer = queue(&subject.peer)?.claims;
    assert_eq!(claims.claim("t.s.1-2-0.1", "first").await?, Claimed::Mine);
    for _ in 0..3 {
        let other = Claimed::Other("first".into());
        assert_eq!(peer.claim("t.s.1-2-0.1", "second").await?, other);
        assert_eq!(peer.claim("t.s.1-2-0.1", "first").await?, Claimed::Mine);
    }
    Ok(())
}

/// Each key has a holder of its own, however alike they are.
pub async fn claims_do_not_mix(subject: Subject) -> Outcome {
    let claims = queue(&subject.stores)?.claims;
    let keys = [
        "t.s.1-2-0.1",
        "t.s.1-2-0.11",
        "t.s.1-2-0.2",
        "t.S.1-2-0.1",
        "t.s_.1-2-0.1",
    ];
    for key in keys {
        assert_eq!(claims.claim(key, key).await?, Claimed::Mine, "{key}");
    }
    Ok(())
}
