//! A whole text table in memory -> entries and counts.

use std::path::Path;

use super::TableProblem;
use super::gather::Gather;
use super::isp::IspSource;
use super::prefix::Fault;
use super::row::{Row, Who, is_header, row, without_comment};

/// Longer lines are invalid (R17).
const MAX_LINE_BYTES: usize = 4096;
/// How many invalid lines are shown (R11).
const MAX_SHOWN: usize = 20;

/// Reads a table; every line goes to `gather`. Refused when more lines are invalid than the source tolerates (R11).
pub(super) fn read_text(
    data: &[u8],
    source: &IspSource,
    file: &Path,
    gather: &mut Gather,
) -> Result<(), Vec<TableProblem>> {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data); // R1
    let mut problems = Vec::new();
    let mut bad_lines = 0;
    let mut seen_content = false;
    for (number, bytes) in (1..).zip(data.split(|&byte| byte == b'\n')) {
        let (at, line_text, fault) = match line(bytes, source, &mut seen_content, number, gather) {
            Ok(()) => continue,
            Err(LineFault::Limit(help)) => {
                problems.push(problem(file, Some(number), None, Fault::new("too many entries", help)));
                return Err(problems);
            }
            Err(LineFault::Bad(at, line_text, fault)) => (at, line_text, fault),
        };
        bad_lines += 1;
        if problems.len() < MAX_SHOWN {
            let column = line_text.get(..at).map(|before| before.chars().count() + 1);
            problems.push(problem(file, Some(number), column, fault));
        }
    }
    gather.bad_lines(bad_lines);
    if bad_lines <= source.max_bad_lines {
        return Ok(());
    }
    if bad_lines > problems.len() {
        let message = format!("{} more invalid lines", bad_lines - problems.len());
        problems.push(problem(file, None, None, Fault::new(message, "correct those above first")));
    }
    Err(problems)
}

pub(super) fn problem(file: &Path, line: Option<usize>, column: Option<usize>, fault: Fault) -> TableProblem {
    TableProblem { file: file.to_owned(), line, column, message: fault.message, help: fault.help }
}

enum LineFault<'a> {
    /// The byte where it starts, the line, and what is wrong.
    Bad(usize, &'a str, Fault),
    /// A limit of the whole table was reached.
    Limit(String),
}

fn line<'a>(
    bytes: &'a [u8],
    source: &IspSource,
    seen_content: &mut bool,
    number: usize,
    gather: &mut Gather,
) -> Result<(), LineFault<'a>> {
    if bytes.len() > MAX_LINE_BYTES {
        let fault =
            Fault::new(format!("the line is longer than {MAX_LINE_BYTES} bytes"), "put one prefix on a line");
        return Err(LineFault::Bad(0, "", fault));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        LineFault::Bad(0, "", Fault::new("the line is not UTF-8", "convert the file, or drop the line"))
    })?;
    let content = without_comment(text);
    let header = !*seen_content && is_header(content);
    *seen_content |= !content.trim().is_empty();
    if header {
        return Ok(());
    }
    let bad = |(at, fault)| LineFault::Bad(at, text, fault);
    let Some(row) = row(content).map_err(bad)? else { return Ok(()) };
    check(&row, source).map_err(|fault| bad((content.len() - content.trim_start().len(), fault)))?;
    for item in items(&row, source, gather).map_err(|fault| bad((0, fault)))? {
        gather.add(row.parsed.span, row.exclude, item, number).map_err(LineFault::Limit)?;
    }
    if row.parsed.masked {
        gather.masked();
    }
    Ok(())
}

fn check(row: &Row<'_>, source: &IspSource) -> Result<(), Fault> {
    if row.parsed.masked && source.strict {
        // R4
        return Err(Fault::new(
            "host bits are set behind the prefix length",
            "write the network address, or a longer length",
        ));
    }
    if row.parsed.span.is_everything() && !source.allow_default && !row.exclude {
        // R10
        return Err(Fault::new(
            "the default route would give every client to one operator",
            "drop the line, or set allow_default",
        ));
    }
    Ok(())
}

/// Whom a row is about; nobody when its AS number is not one of the source's.
fn items(row: &Row<'_>, source: &IspSource, gather: &mut Gather) -> Result<Vec<u32>, Fault> {
    match &row.who {
        Who::Owner if source.name.is_empty() => {
            Err(Fault::new("the line names no operator", "write the operator's name after the prefix"))
        }
        Who::Owner => Ok(vec![gather.item(&source.name)]),
        Who::Everyone => Ok(vec![portolan_balance::nets::EVERY_ITEM]),
        Who::Named(names) => Ok(names.iter().map(|name| gather.item(name)).collect()),
        Who::Network { .. } if source.asns.is_empty() && source.names.is_empty() => {
            let help = "say which are this operator's: asns = [4134, 4809]";
            Err(Fault::new("the line has an AS number, but none is given for the operator", help))
        }
        Who::Network { asn, organisation } => {
            let ours = source.asns.contains(asn) || source.names.iter().any(|name| same(name, organisation));
            Ok(if ours { vec![gather.item(&source.name)] } else { Vec::new() })
        }
    }
}

/// Names compare without case.
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && a.to_lowercase() == b.to_lowercase())
}
