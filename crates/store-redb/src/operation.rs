//! One write of one port, on its way through the writer.

use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::error::WriteError;
use steadfast_store::mailbox::{Lane, MailSeq};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::fault::Fault;
use crate::group::Group;

/// What an acknowledgement of an operation promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// It is visible, and on the disk soon: rides along with the next group that is synced.
    Seen,
    /// It is on the disk.
    Kept,
}

/// What others in this process must hear of an operation once it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A Record was appended, and the entry of the index with this key and version with it.
    Appended(SessionKey, Option<(Vec<u8>, u64)>),
    /// A letter stands in a mailbox.
    Mailed(SessionKey, Lane, MailSeq),
    /// A session's letters up to and including one were removed, so many of each lane.
    Acknowledged(SessionKey, MailSeq, LaneCounts),
    /// A timer was set.
    TimerSet(SessionKey, Epoch, Timestamp),
    /// A timer was forgotten.
    TimerForgotten(SessionKey, Epoch),
}

/// Letters of each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LaneCounts {
    /// In [`Lane::Messages`].
    pub(crate) messages: usize,
    /// In [`Lane::Control`].
    pub(crate) control: usize,
}

impl LaneCounts {
    /// The count of one lane.
    pub(crate) fn of(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Messages => &mut self.messages,
            Lane::Control => &mut self.control,
        }
    }

    /// Without so many.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            control: self.control.saturating_sub(other.control),
        }
    }
}

/// What running an operation in the open transaction came to.
#[derive(Debug)]
pub(crate) struct Step<T> {
    answer: T,
    rows: Rows,
    news: Option<News>,
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// They are as before.
    Untouched,
    /// Some were written or removed.
    Changed,
}

impl<T> Step<T> {
    /// The answer, and no row was changed.
    pub(crate) fn unchanged(answer: T) -> Self {
        Self {
            answer,
            rows: Rows::Untouched,
            news: None,
        }
    }

    /// The answer, and rows were changed.
    pub(crate) fn changed(answer: T) -> Self {
        Self {
            answer,
            rows: Rows::Changed,
            news: None,
        }
    }

    /// With what others in the process must hear.
    #[must_use]
    pub(crate) fn telling(mut self, news: News) -> Self {
        self.news = Some(news);
        self
    }
}

/// A write of a port with its answer's way back.
pub(crate) struct Operation {
    /// What its acknowledgement promises.
    pub(crate) promise: Promise,
    /// About how many bytes it writes.
    pub(crate) size_bytes: usize,
    work: Box<dyn Work>,
}

/// An operation without the type of its answer.
trait Work: Send {
    fn run(&mut self, group: &mut Group<'_>) -> Result<Rows, Fault>;
    fn news(&self) -> Option<&News>;
    fn settle(self: Box<Self>, result: Result<(), WriteError>);
}

impl Operation {
    /// An operation that `run` performs; `run` may be run again if its transaction was not
    /// committed, and it makes no change before its last check.
    pub(crate) fn new<T, F>(
        promise: Promise,
        size_bytes: usize,
        place: OwnedSemaphorePermit,
        run: F,
    ) -> (Self, oneshot::Receiver<Result<T, WriteError>>)
    where
        T: Send + 'static,
        F: FnMut(&mut Group<'_>) -> Result<Step<T>, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(Typed {
            run,
            state: State::Waiting,
            reply,
            _place: place,
        });
        let operation = Self {
            promise,
            size_bytes,
            work,
        };
        (operation, answer)
    }

    /// Runs it in the group's transaction.
    pub(crate) fn run(&mut self, group: &mut Group<'_>) -> Result<Rows, Fault> {
        self.work.run(group)
    }

    /// What others must hear now that it is committed.
    pub(crate) fn news(&self) -> Option<&News> {
        self.work.news()
    }

    /// Answers: `Ok` when its transaction is committed.
    pub(crate) fn settle(self, result: Result<(), WriteError>) {
        self.work.settle(result);
    }
}

struct Typed<T, F> {
    run: F,
    state: State<T>,
    reply: oneshot::Sender<Result<T, WriteError>>,
    /// Held until the answer: it is what bounds the queue.
    _place: OwnedSemaphorePermit,
}

enum State<T> {
    Waiting,
    Ran(Step<T>),
    /// Its own rows cannot be read: it fails alone, the group goes on.
    Corrupt(Fault),
}

impl<T, F> Work for Typed<T, F>
where
    T: Send,
    F: FnMut(&mut Group<'_>) -> Result<Step<T>, Fault> + Send,
{
    fn run(&mut self, group: &mut Group<'_>) -> Result<Rows, Fault> {
        self.state = State::Waiting;
        match (self.run)(group) {
            Ok(step) => {
                let rows = step.rows;
                self.state = State::Ran(step);
                Ok(rows)
            }
            Err(fault @ Fault::Corrupt(_)) => {
                self.state = State::Corrupt(fault);
                Ok(Rows::Untouched)
            }
            Err(fault) => Err(fault),
        }
    }

    fn news(&self) -> Option<&News> {
        match &self.state {
            State::Ran(step) => step.news.as_ref(),
            State::Waiting | State::Corrupt(_) => None,
        }
    }

    fn settle(self: Box<Self>, result: Result<(), WriteError>) {
        let answer = match (result, self.state) {
            (Ok(()), State::Ran(step)) => Ok(step.answer),
            (_, State::Corrupt(fault)) => Err(fault.into_write_error()),
            // It changed nothing, so nothing of it is in doubt; but what it answered may rest on
            // rows whose commit failed.
            (Err(WriteError::Unknown(reason)), State::Ran(step))
                if step.rows == Rows::Untouched =>
            {
                Err(WriteError::Unavailable(reason))
            }
            (Err(error), _) => Err(error),
            (Ok(()), State::Waiting) => Err(WriteError::Unavailable("it was not run".into())),
        };
        // A caller that went away wants no answer.
        drop(self.reply.send(answer));
    }
}
