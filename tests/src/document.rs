//! What documents show: fenced blocks, and commands between backticks.

use std::path::{Path, PathBuf};

use crate::place;

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// File and line, for messages.
    pub place: String,
    /// The word behind the fence: `toml`, `sh`, …
    pub language: String,
    /// The text, without the indentation of the fence.
    pub text: String,
}

/// The Markdown files for users: README and everything in `docs`, `deploy` and `isp-tables`.
#[must_use]
pub fn documents() -> Vec<PathBuf> {
    let root = place::source_root();
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "deploy", "isp-tables"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        files.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|it| it == "md")),
        );
    }
    files.sort();
    files
}

/// The fenced blocks of a file.
#[must_use]
pub fn blocks(file: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let place = format!("{}:{}", file.display(), number + 1);
                open = Some((
                    indent,
                    Block { place, language: language.trim().to_owned(), text: String::new() },
                ));
            }
            (Some((_, block)), Some(_)) => {
                blocks.push(block.clone());
                open = None;
            }
            (Some((indent, block)), None) => {
                block.text += line.get(*indent..).unwrap_or_default();
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a block is not closed", file.display());
    blocks
}

/// What stands between backticks in a text, blocks left out.
#[must_use]
pub fn inline_code(text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose += line;
            prose.push('\n');
        }
    }
    prose
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// A command line as a shell would part it: blanks, single quotes.
#[must_use]
pub fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
