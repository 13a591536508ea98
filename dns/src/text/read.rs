//! Entries to records: directives, owners, TTLs and classes (RFC 1035 5.1, RFC 2308 4).

use crate::name::{Name, NameError};
use crate::record::{Place, Problem, Record};
use crate::rrtype::RrType;

use super::field::{self, Fields};
use super::generate::Template;
use super::lex::{Entry, Lexer, Quotes, Token};
use super::problem::{fail, shown};
use super::{Limits, Source, rdata};

/// What the files gave, before the zone is checked as a whole.
#[derive(Default)]
pub(super) struct Read {
    pub(super) files: Vec<String>,
    pub(super) records: Vec<Record>,
    pub(super) warnings: Vec<Problem>,
    pub(super) errors: Vec<Problem>,
}

/// Reads a zone file and what it includes.
pub(super) fn read(source: &mut dyn Source, path: &str, limits: &Limits) -> Read {
    let mut reader = Reader {
        source,
        limits,
        read: Read::default(),
        stack: Vec::new(),
        default_ttl: None,
        last_ttl: None,
        ttl_assumed: false,
        included: 0,
        octets: 0,
        generated: 0,
        data: Vec::new(),
    };
    let scope = Scope { origin: None, owner: Owner::None };
    // the name stands in for the file's when it cannot even be read
    if let Err(problem) = reader.file(path, None, scope) {
        if reader.read.files.is_empty() {
            reader.read.files.push(path.to_owned());
        }
        reader.read.errors.push(problem);
    }
    reader.read
}

struct Reader<'s> {
    source: &'s mut dyn Source,
    limits: &'s Limits,
    read: Read,
    /// The files being read, the innermost last.
    stack: Vec<u32>,
    /// From `$TTL`. As in BIND it holds from there on, whichever file says it.
    default_ttl: Option<u32>,
    /// The last one written in a record (RFC 1035 5.1).
    last_ttl: Option<u32>,
    ttl_assumed: bool,
    included: usize,
    octets: usize,
    generated: u64,
    /// Record data under construction.
    data: Vec<u8>,
}

/// What a file inherits from the one that includes it, and cannot change there (Z08).
#[derive(Clone)]
struct Scope {
    origin: Option<Name>,
    owner: Owner,
}

/// The owner for lines that begin with a blank.
#[derive(Clone)]
enum Owner {
    None,
    Known(Name),
    /// It was written, but wrong: what belongs to it needs no complaint of its own.
    Bad,
}

impl Reader<'_> {
    fn file(&mut self, path: &str, from: Option<Place>, scope: Scope) -> Result<(), Problem> {
        let place = from.unwrap_or_default();
        let includer = from.and_then(|place| self.read.files.get(usize::try_from(place.file).ok()?)).cloned();
        let (name, text) = self.source.read(path, includer.as_deref()).map_err(|reason| {
            fail(place, format!("cannot read {}: {reason}", shown(path.as_bytes())))
                .help("a path is relative to the file it is written in")
        })?;
        self.octets = self.octets.saturating_add(text.len());
        if self.octets > self.limits.octets {
            return Err(fail(place, format!("the zone is larger than {} octets", self.limits.octets)));
        }
        let known = self.read.files.iter().position(|file| *file == name);
        let file = known.unwrap_or(self.read.files.len());
        let file = u32::try_from(file).unwrap_or(u32::MAX);
        if self.stack.contains(&file) {
            return Err(fail(place, format!("{} includes itself", shown(name.as_bytes())))
                .help("remove the $INCLUDE that closes the circle"));
        }
        if known.is_none() {
            self.read.files.push(name);
        }
        self.stack.push(file);
        self.text(&text, file, scope);
        self.stack.pop();
        Ok(())
    }

    fn text(&mut self, text: &[u8], file: u32, mut scope: Scope) {
        let start = Place { file, line: 1, column: 1 };
        if matches!(text, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            self.read
                .errors
                .push(fail(start, "the file is in UTF-16").help("save it as UTF-8 or plain ASCII"));
            return;
        }
        // a byte order mark is what some editors put in front of UTF-8
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        self.entries(Lexer::new(text, file), &mut scope);
    }

    fn entries(&mut self, mut lexer: Lexer<'_>, scope: &mut Scope) {
        let mut entry = Entry::default();
        while self.read.errors.len() < self.limits.problems.max(1) {
            let done = match lexer.next(&mut entry) {
                Ok(true) => self.entry(&entry, scope),
                Ok(false) => return,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = done {
                self.read.errors.push(problem);
            }
        }
    }

    fn entry(&mut self, entry: &Entry<'_>, scope: &mut Scope) -> Result<(), Problem> {
        match entry.tokens.first() {
            Some(first) if !entry.indented && first.is_directive() => self.directive(entry, scope),
            Some(_) => self.record(entry, scope),
            None => Ok(()),
        }
    }

    fn directive(&mut self, entry: &Entry<'_>, scope: &mut Scope) -> Result<(), Problem> {
        let Some((directive, rest)) = entry.tokens.split_first() else { return Ok(()) };
        let mut fields = Fields::new(rest, directive.at, scope.origin.as_ref());
        match directive.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => {
                let origin = fields.name("the new origin")?;
                fields.end()?;
                scope.origin = Some(origin);
            }
            b"$TTL" => {
                self.default_ttl = Some(fields.ttl()?);
                fields.end()?;
            }
            b"$INCLUDE" => {
                let path = fields.next("a path")?.decoded()?;
                let path = String::from_utf8(path)
                    .map_err(|_| fail(directive.at, "the path of $INCLUDE is not UTF-8"))?;
                let origin = if fields.is_empty() { None } else { Some(fields.name("an origin")?) };
                fields.end()?;
                let mut inner = scope.clone();
                inner.origin = origin.or(inner.origin);
                self.include(&path, directive.at, inner)?;
            }
            b"$GENERATE" => {
                self.generate(&Template::parse(rest, directive.at)?, directive.at, scope)?;
            }
            _ => {
                return Err(fail(directive.at, format!("unknown directive {}", shown(directive.text)))
                    .help("known are $ORIGIN, $TTL, $INCLUDE and $GENERATE; write \"\\$\" for a name"));
            }
        }
        Ok(())
    }

    fn generate(&mut self, template: &Template, at: Place, scope: &Scope) -> Result<(), Problem> {
        let left = self.limits.generated - self.generated;
        let count = template.count();
        if count > left {
            return Err(fail(at, format!("$GENERATE makes {count} records; {left} more are allowed"))
                .help("make the range smaller, or the step larger"));
        }
        self.generated += count;
        let errors = self.read.errors.len();
        let mut text = Vec::new();
        for value in template.values() {
            template.text(value, &mut text)?;
            self.entries(Lexer::generated(&text, at), &mut scope.clone());
            if self.read.errors.len() > errors {
                // what is wrong with one of them is mostly wrong with all
                break;
            }
        }
        Ok(())
    }

    fn include(&mut self, path: &str, at: Place, scope: Scope) -> Result<(), Problem> {
        if self.stack.len() > self.limits.include_depth {
            return Err(fail(at, format!("files include files {} deep", self.limits.include_depth))
                .help("include from fewer levels"));
        }
        self.included += 1;
        if self.included > self.limits.includes {
            return Err(fail(at, format!("more than {} $INCLUDEs", self.limits.includes)));
        }
        self.file(path, Some(at), scope)
    }

    fn record(&mut self, entry: &Entry<'_>, scope: &mut Scope) -> Result<(), Problem> {
        let mut tokens = entry.tokens.as_slice();
        if !entry.indented
            && let Some((first, rest)) = tokens.split_first()
        {
            tokens = rest;
            scope.owner = Owner::Bad;
            scope.owner = Owner::Known(field::name(first, scope.origin.as_ref())?);
        }
        let Some(&first) = entry.tokens.first() else { return Ok(()) };
        let owner = match &scope.owner {
            Owner::Known(owner) => owner.clone(),
            Owner::Bad => return Ok(()),
            Owner::None => {
                return Err(fail(first.at, "the line begins with a blank, but there is no owner before it")
                    .help("begin the line with a name, or with \"@\" for the origin"));
            }
        };
        let (head, rest) = head(tokens, first.at)?;
        if head.rtype == RrType::SOA && scope.origin.is_none() {
            // what is relative in a zone without $ORIGIN is relative to its apex
            scope.origin = Some(owner.clone());
        }
        let mut fields = Fields::new(rest, head.at, scope.origin.as_ref());
        self.data.clear();
        rdata::parse(head.rtype, &mut fields, &mut self.data)?;
        let ttl = self.ttl(head.ttl, first.at);
        let rdata = self.data.as_slice().into();
        self.read.records.push(Record { owner, rtype: head.rtype, ttl, rdata, at: first.at });
        Ok(())
    }

    /// RFC 2308 4: `$TTL`; without it the last explicit one (RFC 1035 5.1); never the SOA's minimum (Z14).
    fn ttl(&mut self, written: Option<u32>, at: Place) -> u32 {
        if let Some(ttl) = written {
            self.last_ttl = Some(ttl);
            return ttl;
        }
        if let Some(ttl) = self.default_ttl {
            return ttl;
        }
        let (ttl, which) = match self.last_ttl {
            Some(ttl) => (ttl, "the last one written"),
            None => (self.limits.default_ttl, "the configured default"),
        };
        if !self.ttl_assumed {
            self.ttl_assumed = true;
            self.read.warnings.push(
                fail(at, format!("the record has no TTL and there is no $TTL before it: {ttl}, {which}"))
                    .help(format!("write \"$TTL {ttl}\" at the top of the file")),
            );
        }
        ttl
    }
}

/// What stands between owner and data.
pub(super) struct Head {
    ttl: Option<u32>,
    rtype: RrType,
    at: Place,
}

/// TTL and class in either order, each once or not at all, then the type.
pub(super) fn head<'e, 't>(
    mut tokens: &'e [Token<'t>],
    at: Place,
) -> Result<(Head, &'e [Token<'t>]), Problem> {
    let mut ttl = None;
    let mut class = false;
    while let Some((token, rest)) = tokens.split_first() {
        if ttl.is_none() && token.text.first().is_some_and(u8::is_ascii_digit) {
            ttl = Some(field::ttl(token)?);
        } else if !class && is_class(token)? {
            class = true;
        } else {
            return Ok((Head { ttl, rtype: rtype(token)?, at: token.at }, rest));
        }
        tokens = rest;
    }
    Err(fail(at, "the line has no record type").help("write for example \"www 3600 IN A 192.0.2.1\""))
}

/// Whether the token is class IN; another class is a problem.
fn is_class(token: &Token<'_>) -> Result<bool, Problem> {
    const OTHERS: [&str; 7] = ["CH", "CHAOS", "HS", "HESIOD", "CS", "ANY", "NONE"];
    let is = |class: &&str| token.text.eq_ignore_ascii_case(class.as_bytes());
    let generic = token
        .text
        .split_at_checked(5)
        .filter(|(word, number)| word.eq_ignore_ascii_case(b"CLASS") && field::number(number).is_some());
    match generic {
        _ if is(&"IN") || is(&"CLASS1") => Ok(true),
        None if !OTHERS.iter().any(is) => Ok(false),
        _ => Err(other_class(token)),
    }
}

fn other_class(token: &Token<'_>) -> Problem {
    fail(token.at, format!("the class is {}", shown(token.text)))
        .help("zones are of class IN; leave the class out or write IN")
}

fn rtype(token: &Token<'_>) -> Result<RrType, Problem> {
    let rtype = match RrType::from_bytes(token.text) {
        Ok(rtype) if token.quotes == Quotes::None => rtype,
        _ => {
            let help = match token.text {
                [b'$', ..] => "begin directives in the first column",
                _ => "write the type's mnemonic, or TYPE and its number, before the data",
            };
            return Err(fail(token.at, format!("{} is no record type", shown(token.text))).help(help));
        }
    };
    if rtype.is_meta() {
        return Err(fail(token.at, format!("{rtype} records do not exist in zones")).help("remove the line"));
    }
    Ok(rtype)
}

/// A name as a problem, with the remedy that fits.
pub(super) fn name_problem(token: &Token<'_>, error: NameError) -> Problem {
    let help = match error {
        NameError::Relative => {
            "write the full name with its trailing dot, or \"$ORIGIN example.com.\" before this line"
        }
        NameError::Empty => "write \"@\" for the origin, or \".\" for the root",
        NameError::EmptyLabel => "remove the extra dot",
        NameError::BadEscape => "write \"\\\\\" for a backslash",
        NameError::LabelTooLong | NameError::TooLong | NameError::BadWire => "shorten it",
    };
    fail(token.at, format!("bad name {}: {error}", shown(token.text))).help(help)
}
