//! What is wrong with a config: every problem at once, each with its place, the value and the remedy.

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value as Json, json};

use crate::place::Span;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The config cannot be used.
    Error,
    /// The config can be used, but probably not as it was meant.
    Warning,
}

impl Severity {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In a config file.
    Span(Span),
    /// In another file: a zone, a table. Line and column are counted from 1.
    File {
        /// The file.
        file: String,
        /// The line, where there are lines.
        line: Option<u32>,
        /// The column, where it is known.
        column: Option<u32>,
    },
}

/// One thing that is wrong or odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Its kind, a stable word: `unknown-key`.
    pub code: &'static str,
    /// What is wrong, naming the value.
    pub message: String,
    /// Where, the place to change first.
    pub place: Where,
    /// Other places that matter, and why.
    pub related: Vec<(Span, String)>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// An error in a config file.
    pub fn error(code: &'static str, at: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            place: Where::Span(at),
            related: Vec::new(),
            help: None,
        }
    }

    /// A warning in a config file.
    pub fn warning(code: &'static str, at: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, at, message) }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another place that matters.
    #[must_use]
    pub fn see(mut self, at: Span, why: impl Into<String>) -> Self {
        if at != Span::NOWHERE {
            self.related.push((at, why.into()));
        }
        self
    }
}

/// Most problems that are drawn with their line: nobody reads more at once, and each looks through its whole file.
const SHOWN: usize = 500;

/// The text of a config file, for places.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path, as shown.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// All problems of a config, with the texts they point into.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    pub(crate) files: Arc<[SourceFile]>,
    pub(crate) list: Vec<Problem>,
}

impl Problems {
    /// The problems, errors first, else in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// One list of several about the same files.
    #[must_use]
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        let mut all = all.into_iter();
        let Some(Self { files, mut list }) = all.next() else { return Self::default() };
        list.extend(all.flat_map(|problems| problems.list));
        Self::new(files, list)
    }

    /// Gathers and sorts problems.
    pub(crate) fn new(files: Arc<[SourceFile]>, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| {
            let place = match &problem.place {
                Where::Span(span) => (span.file, span.start),
                Where::File { .. } => (u32::MAX, 0),
            };
            (problem.severity, place)
        });
        list.dedup();
        for problem in &mut list {
            for text in std::iter::once(&mut problem.message).chain(&mut problem.help) {
                // names from files are shown: they must not steer the terminal
                if text.contains(char::is_control) {
                    *text = text.replace(char::is_control, "\u{fffd}");
                }
            }
        }
        Self { files, list }
    }

    /// Where a problem is: file, line and column, counted from 1.
    pub fn place(&self, problem: &Problem) -> (String, Option<u32>, Option<u32>) {
        match &problem.place {
            Where::File { file, line, column } => (file.clone(), *line, *column),
            Where::Span(span) => match self.files.get(span.file as usize) {
                Some(file) => {
                    let (line, column) = line_and_column(&file.text, span.start as usize);
                    (file.name.clone(), Some(line), Some(column))
                }
                None => (String::new(), None, None),
            },
        }
    }

    /// For people, the way rustc shows errors.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for problem in self.list.iter().take(SHOWN) {
            text.push_str(&renderer.render(&[self.group(problem)]));
            text.push_str("\n\n");
        }
        let left = self.list.len().saturating_sub(SHOWN);
        if left > 0 {
            text.push_str(&format!("{left} more are not shown\n\n"));
        }
        let count = |severity| self.list.iter().filter(|problem| problem.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        match (errors, warnings) {
            (0, 0) => {}
            (0, w) => text.push_str(&format!("{w} warning{}\n", plural(w))),
            (e, 0) => text.push_str(&format!("{e} error{}\n", plural(e))),
            (e, w) => text.push_str(&format!("{e} error{}, {w} warning{}\n", plural(e), plural(w))),
        }
        text
    }

    fn group<'a>(&'a self, problem: &'a Problem) -> Group<'a> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group =
            level.primary_title(problem.message.as_str()).id(problem.code).elements([] as [Origin<'_>; 0]);
        match &problem.place {
            Where::Span(span) => {
                if let Some(file) = self.files.get(span.file as usize) {
                    let here = |span: &Span| {
                        let end = (span.end as usize).min(file.text.len());
                        first_line(&file.text, (span.start as usize).min(end), end)
                    };
                    let snippet = Snippet::source(file.text.as_str()).path(file.name.as_str());
                    let snippet = snippet.annotation(AnnotationKind::Primary.span(here(span)));
                    let same = problem.related.iter().filter(|(other, _)| other.file == span.file);
                    let snippet =
                        snippet.annotations(same.map(|(other, why)| {
                            AnnotationKind::Context.span(here(other)).label(why.as_str())
                        }));
                    group = group.element(snippet);
                }
                for (other, why) in problem.related.iter().filter(|(other, _)| other.file != span.file) {
                    if let Some(file) = self.files.get(other.file as usize) {
                        let end = (other.end as usize).min(file.text.len());
                        let range = first_line(&file.text, (other.start as usize).min(end), end);
                        let context = AnnotationKind::Context.span(range).label(why.as_str());
                        group = group.element(
                            Snippet::source(file.text.as_str()).path(file.name.as_str()).annotation(context),
                        );
                    }
                }
            }
            Where::File { file, line, column } => {
                let mut origin = Origin::path(file.as_str());
                if let Some(line) = line {
                    origin = origin.line(*line as usize);
                    if let Some(column) = column {
                        origin = origin.char_column(*column as usize);
                    }
                }
                group = group.element(origin);
            }
        }
        match &problem.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Json {
        let problems = self.list.iter().map(|problem| {
            let (file, line, column) = self.place(problem);
            json!({
                "severity": problem.severity.name(),
                "code": problem.code,
                "file": file,
                "line": line,
                "column": column,
                "message": problem.message,
                "help": problem.help,
            })
        });
        Json::Array(problems.collect())
    }
}

/// One line a problem: `file:line:column: error[code]: message; help`.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            let (file, line, column) = self.place(problem);
            f.write_str(if at == 0 { "" } else { "\n" })?;
            if !file.is_empty() {
                f.write_str(&file)?;
                for number in [line, column].into_iter().flatten() {
                    write!(f, ":{number}")?;
                }
                f.write_str(": ")?;
            }
            write!(f, "{}[{}]: {}", problem.severity.name(), problem.code, problem.message)?;
            if let Some(help) = &problem.help {
                write!(f, "; {help}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A range cut to its first line, moved to the borders of characters: whole tables would hide the point.
fn first_line(text: &str, start: usize, end: usize) -> std::ops::Range<usize> {
    let start = text.floor_char_boundary(start);
    let end = text.ceil_char_boundary(end);
    let line = text.get(start..end).and_then(|part| part.find('\n')).map_or(end, |at| start + at);
    start..line.max(start)
}

/// Line and column in characters, both from 1.
fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or_default();
    let line = before.bytes().filter(|&octet| octet == b'\n').count();
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count());
    let number = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
    (number(line), number(column))
}
