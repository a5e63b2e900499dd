//! The line editor, on a thread of its own: it blocks.

use std::thread::JoinHandle;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::sync::{mpsc, oneshot};

/// What the user did at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a pipe.
    End,
}

struct Question {
    prompt: String,
    answer: oneshot::Sender<Typed>,
}

/// Asks the user for lines, one at a time.
pub(crate) struct Editor {
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl Editor {
    /// Starts the thread.
    pub(crate) fn start() -> anyhow::Result<Self> {
        // The screen owns the terminal while a turn runs: one question at a time is enough.
        let (questions, asked) = mpsc::channel(1);
        let editor = DefaultEditor::new()?;
        let thread = std::thread::Builder::new()
            .name("line-editor".to_owned())
            .spawn(move || answer_all(editor, asked))?;
        Ok(Self {
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    /// Asks for a line.
    pub(crate) async fn ask(&self, prompt: &str) -> Typed {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            prompt: prompt.to_owned(),
            answer,
        };
        let Some(questions) = &self.questions else {
            return Typed::End;
        };
        if questions.send(question).await.is_err() {
            return Typed::End;
        }
        answered.await.unwrap_or(Typed::End)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.questions = None;
        // Waiting for a thread that still reads a line would wait for the user.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn answer_all(mut editor: DefaultEditor, mut asked: mpsc::Receiver<Question>) {
    while let Some(Question { prompt, answer }) = asked.blocking_recv() {
        let typed = match editor.readline(&prompt) {
            Ok(text) => {
                // Only a convenience: without it the line is still sent.
                let _ = editor.add_history_entry(text.as_str());
                Typed::Line(text)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        };
        // Nobody waits any more when the chat ended meanwhile.
        let _ = answer.send(typed);
    }
}
