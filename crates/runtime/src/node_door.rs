//! This node's door: answers what other nodes ask.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use steadfast_core::id::SessionKey;
use steadfast_protocol::door::{self, Answer, DOOR_BYTES_MAX, Question};
use steadfast_store::mailbox::MailSeq;
use steadfast_store::node_door;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::doors::{Door, Doors, Knock, Refusal, Unheard};
use crate::feed::frame_bytes;
use crate::host::Host;

/// Questions about mail that wait for their session at the same time; further ones are told that
/// somebody is here, and are asked again.
const WAITING_MAX: usize = 1_024;
/// Wait after the door could not be opened.
const RETRY: Duration = Duration::from_secs(1);

/// Answers until `closed`. It makes no owner: only sessions that are in memory are spoken for.
pub(crate) struct NodeDoor {
    pub(crate) host: Arc<Host>,
    pub(crate) doors: Arc<Doors>,
}

impl NodeDoor {
    pub(crate) async fn run(self, closed: CancellationToken) {
        let mut waiting = JoinSet::new();
        loop {
            let listening = self.host.stores.node_doors.listen(&self.host.node);
            let questions = tokio::select! { biased;
                () = closed.cancelled() => return,
                questions = listening => questions,
            };
            match questions {
                Ok(mut questions) => loop {
                    tokio::select! { biased;
                        () = closed.cancelled() => return,
                        Some(_) = waiting.join_next(), if !waiting.is_empty() => {}
                        question = questions.next() => match question {
                            Some(question) => self.hear(question, &mut waiting),
                            None => break,
                        },
                    }
                },
                Err(error) => tracing::warn!(%error, "the node's door is not open, again"),
            }
            tokio::select! { biased;
                () = closed.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    fn hear(&self, asked: node_door::Question, waiting: &mut JoinSet<()>) {
        let answer = match door::decode_question(&asked.bytes) {
            Ok(Question::Alive) => Answer::Here,
            Ok(Question::Holds { session }) => self.holds(&session),
            Ok(Question::OpenStep { session }) => self.open_step(&session),
            Ok(Question::Mail { session, up_to }) => match self.owner(&session) {
                Some(_) if waiting.len() >= WAITING_MAX => Answer::Here,
                Some(door) => {
                    let patience = self.host.options.owner_patience;
                    let doors = Arc::clone(&self.doors);
                    waiting.spawn(async move {
                        let answer = mail(&doors, &door, up_to);
                        let answer = tokio::time::timeout(patience, answer).await;
                        answered(asked.reply, &answer.unwrap_or(Answer::Here));
                    });
                    return;
                }
                None => Answer::NotMine,
            },
            // A question of another release: that somebody is here is all that can be said.
            Err(error) => {
                tracing::debug!(%error, "a question was not understood");
                Answer::Here
            }
        };
        answered(asked.reply, &answer);
    }

    fn owner(&self, session: &SessionKey) -> Option<Arc<Door>> {
        let door = self.doors.find(session)?;
        door.may_be_owner(&self.host.node).then_some(door)
    }

    fn holds(&self, session: &SessionKey) -> Answer {
        match self.owner(session) {
            Some(_) => Answer::Mine { taken: 0 },
            None => Answer::NotMine,
        }
    }

    fn open_step(&self, session: &SessionKey) -> Answer {
        let Some(door) = self.owner(session) else {
            return Answer::NotMine;
        };
        let mut room = DOOR_BYTES_MAX / 2;
        let frames = door.feed.frames().into_iter().take_while(|frame| {
            let bytes = frame_bytes(frame);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        Answer::OpenStep {
            frames: frames.map(|frame| (*frame).clone()).collect(),
        }
    }
}

async fn mail(doors: &Doors, door: &Arc<Door>, up_to: u64) -> Answer {
    let (reply, answer) = oneshot::channel();
    let up_to = MailSeq(up_to);
    match doors.knock(door, Knock::Mail { up_to, reply }).await {
        Ok(()) => {}
        Err(Unheard::Leaving) => return Answer::Releasing,
        Err(Unheard::NotWoken(_)) => return Answer::Here,
    }
    match answer.await {
        Ok(Ok(taken)) => Answer::Mine { taken: taken.0 },
        Ok(Err(Refusal::Releasing)) => Answer::Releasing,
        Ok(Err(Refusal::Again | Refusal::Elsewhere(_))) => Answer::NotMine,
        Ok(Err(Refusal::ForTheQueue | Refusal::Error(_))) | Err(_) => Answer::Here,
    }
}

fn answered(reply: oneshot::Sender<bytes::Bytes>, answer: &Answer) {
    match door::encode_answer(answer) {
        // Who asked may be gone.
        Ok(bytes) => drop(reply.send(bytes.into())),
        Err(error) => tracing::warn!(%error, "an answer was not written"),
    }
}
