//! Doors of nodes.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::NodeId;

use super::samples::node;
use super::{Failure, Outcome, Subject, soon};
use crate::node_door::{AskError, Question};
use crate::stores::Stores;

const PATIENCE: Duration = Duration::from_secs(2);

/// Answers each question with its bytes and a name.
async fn answer(mut door: BoxStream<'static, Question>, name: &str) {
    while let Some(question) = door.next().await {
        let mut bytes = question.bytes.to_vec();
        bytes.extend_from_slice(name.as_bytes());
        // An asker that left needs no answer.
        let _left = question.reply.send(bytes.into());
    }
}

/// Asks until the door is open: over a network that takes a moment.
async fn asked(stores: &Stores, name: &NodeId, text: &'static str) -> Result<Bytes, Failure> {
    let answered = async {
        loop {
            let bytes = Bytes::from_static(text.as_bytes());
            match stores.node_doors.ask(name, bytes, PATIENCE).await {
                Ok(answer) => return Ok(answer),
                Err(AskError::NoResponders) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(Failure::from(error)),
            }
        }
    };
    soon("an answer", answered).await?
}

/// Each node answers at its own door, to all nodes.
pub async fn each_node_answers_at_its_own_door(subject: Subject) -> Outcome {
    let (a, b) = (node("a")?, node("b")?);
    let doors = [
        tokio::spawn(answer(subject.stores.node_doors.listen(&a).await?, "-a")),
        tokio::spawn(answer(subject.peer.node_doors.listen(&b).await?, "-b")),
    ];
    for stores in [&subject.stores, &subject.peer] {
        assert_eq!(asked(stores, &a, "one").await?, "one-a");
        assert_eq!(asked(stores, &b, "two").await?, "two-b");
    }
    doors.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

/// Many questions at once are answered each by its own answer.
pub async fn many_questions_are_answered(subject: Subject) -> Outcome {
    let a = node("a")?;
    let door = tokio::spawn(answer(subject.stores.node_doors.listen(&a).await?, "-a"));
    asked(&subject.peer, &a, "first").await?;
    let questions = (0..100).map(|n| {
        let (doors, a) = (&subject.peer.node_doors, &a);
        async move {
            let answer = doors.ask(a, n.to_string().into(), PATIENCE).await;
            (n, answer)
        }
    });
    for (n, answer) in futures_util::future::join_all(questions).await {
        assert_eq!(answer, Ok(Bytes::from(format!("{n}-a"))));
    }
    door.abort();
    Ok(())
}

/// Nobody listens: said without waiting.
pub async fn nobody_listens(subject: Subject) -> Outcome {
    let a = node("a")?;
    let bytes = Bytes::from_static(b"?");
    let long = Duration::from_secs(3_600);
    let asked = subject.peer.node_doors.ask(&a, bytes.clone(), long);
    assert_eq!(soon("no", asked).await?, Err(AskError::NoResponders));
    let door = tokio::spawn(answer(subject.stores.node_doors.listen(&a).await?, "-a"));
    self::asked(&subject.peer, &a, "?").await?;
    door.abort();
    // Its stream is dropped with it.
    let _aborted = door.await;
    let gone = async {
        loop {
            let answer = subject.peer.node_doors.ask(&a, bytes.clone(), PATIENCE);
            if answer.await == Err(AskError::NoResponders) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("an empty door", gone).await
}

/// A question that meets silence, or whose answer is dropped, ends at its time limit.
pub async fn a_question_that_meets_silence_ends(subject: Subject) -> Outcome {
    let a = node("a")?;
    let mut door = subject.stores.node_doors.listen(&a).await?;
    let short = Duration::from_millis(300);
    let heard = async {
        loop {
            let bytes = Bytes::from_static(b"?");
            match subject.peer.node_doors.ask(&a, bytes, short).await {
                Err(AskError::NoResponders) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                other => return other,
            }
        }
    };
    assert_eq!(soon("silence", heard).await?, Err(AskError::TimedOut));
    let dropped = async {
        while let Some(question) = door.next().await {
            drop(question);
        }
    };
    let asked = subject
        .peer
        .node_doors
        .ask(&a, Bytes::from_static(b"?"), short);
    let answer = tokio::select! {
        answer = asked => answer,
        () = dropped => return Err(Failure::new("the door was closed")),
    };
    assert_eq!(answer, Err(AskError::TimedOut));
    Ok(())
}
