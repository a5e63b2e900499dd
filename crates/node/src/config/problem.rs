//! What is wrong with a configuration, and how it is shown.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use crate::config::document::{Document, Place, Source, names_secret};
use crate::config::key_path::KeyPath;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Of which value.
    pub(crate) path: KeyPath,
    /// Whether its key or its value is wrong.
    pub(crate) part: Part,
    /// What is wrong, in a line.
    pub(crate) title: String,
    /// Beside the marked text.
    pub(crate) label: Option<String>,
    /// What to do.
    pub(crate) help: Option<String>,
}

/// Part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Key,
    Value,
}

impl Problem {
    /// A wrong value.
    pub(crate) fn value(path: KeyPath, title: impl Into<String>) -> Self {
        Self {
            path,
            part: Part::Value,
            title: title.into(),
            label: None,
            help: None,
        }
    }

    /// A key that should not be there, or a table that lacks one.
    pub(crate) fn key(path: KeyPath, title: impl Into<String>) -> Self {
        Self {
            part: Part::Key,
            ..Self::value(path, title)
        }
    }

    /// With a remark beside the marked text.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// With what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// All that is wrong, rendered with its places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    plain: String,
    styled: String,
    count: usize,
}

impl ConfigError {
    /// Renders the problems; `None` when there are none.
    pub(crate) fn new(document: &Document, problems: &[Problem]) -> Option<Self> {
        let mut problems: Vec<&Problem> = problems.iter().collect();
        // In the order of the text, whatever the order of the checks.
        problems.sort_by_key(|problem| document.position(&problem.path));
        let render = |renderer: &Renderer| {
            let texts: Vec<String> = problems
                .iter()
                .map(|problem| render(renderer, document, problem))
                .collect();
            texts.join("\n\n")
        };
        (!problems.is_empty()).then(|| Self {
            plain: render(&Renderer::plain()),
            styled: render(&Renderer::styled()),
            count: problems.len(),
        })
    }

    /// Renders errors of a file's syntax; `None` when there are none.
    pub(crate) fn of_text(path: &str, text: &str, places: &[(&str, Range<usize>)]) -> Option<Self> {
        let render = |renderer: &Renderer| {
            let texts: Vec<String> = places
                .iter()
                .map(|(message, span)| {
                    let title =
                        Level::ERROR.primary_title(format!("`{path}` is not TOML: {message}"));
                    let mark = AnnotationKind::Primary.span(first_line(text, span.clone()));
                    // What cannot be parsed cannot be searched for secrets: lines that may hold
                    // one are named, not shown.
                    let group = match plain_line(text, span.start) {
                        Ok(()) => title.element(Snippet::source(text).path(path).annotation(mark)),
                        Err(line) => title.element(Origin::path(path).line(line)),
                    };
                    renderer.render(&[group])
                })
                .collect();
            texts.join("\n\n")
        };
        (!places.is_empty()).then(|| Self {
            plain: render(&Renderer::plain()),
            styled: render(&Renderer::styled()),
            count: places.len(),
        })
    }

    /// One problem that has no place in any file.
    pub(crate) fn bare(title: &str, help: &str) -> Self {
        let report = [Level::ERROR
            .primary_title(title)
            .element(Level::HELP.message(help))];
        Self {
            plain: Renderer::plain().render(&report),
            styled: Renderer::styled().render(&report),
            count: 1,
        }
    }

    /// For a terminal, with colours.
    pub fn styled(&self) -> &str {
        &self.styled
    }

    /// How many problems there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain)
    }
}

impl std::error::Error for ConfigError {}

fn render(renderer: &Renderer, document: &Document, problem: &Problem) -> String {
    let mut elements: Vec<Element<'_>> = Vec::new();
    if let Some(place) = document.place(&problem.path)
        && !problem.path.0.is_empty()
    {
        elements.push(element(problem, &place));
    }
    if let (Some(label), true) = (&problem.label, !in_file(document, problem)) {
        elements.push(Level::NOTE.message(label).into());
    }
    if let Some(help) = &problem.help {
        elements.push(Level::HELP.message(help).into());
    }
    let title = Level::ERROR.primary_title(&problem.title);
    renderer.render(&[title.elements(elements)])
}

fn in_file(document: &Document, problem: &Problem) -> bool {
    let place = document.place(&problem.path);
    place.is_some_and(|place| matches!(place.source, Source::File { .. } if !place.key.is_empty()))
}

fn element<'a>(problem: &'a Problem, place: &Place<'a>) -> Element<'a> {
    match place.source {
        // The whole file: there is no part to point at.
        Source::File { path, .. } if place.key.is_empty() => Origin::path(path).into(),
        Source::File { path, text } => {
            let span = match problem.part {
                Part::Key => place.key.clone(),
                Part::Value => place.value.clone(),
            };
            let mark = AnnotationKind::Primary
                .span(first_line(text, span))
                .label(problem.label.as_deref());
            Snippet::source(text).path(path).annotation(mark).into()
        }
        Source::Environment(name) => Origin::path(format!("environment variable {name}")).into(),
        Source::Argument(key) => Origin::path(format!("--set {key}=...")).into(),
    }
}

/// A table's span may be long: its first line is enough.
fn first_line(text: &str, span: Range<usize>) -> Range<usize> {
    let shown = text.get(span.clone()).unwrap_or_default();
    let length = shown.find('\n').unwrap_or(shown.len());
    span.start..span.start + length
}

/// Whether the line at this byte may be shown; else its number.
fn plain_line(text: &str, at: usize) -> Result<(), usize> {
    let before = text.get(..at).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    if names_secret(line) {
        Err(number)
    } else {
        Ok(())
    }
}
