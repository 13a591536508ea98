//! Targets of operators' commands: which members does `site:beijing` or `*.example.com/192.0.2.*` mean?

use crate::roster::{MemberAt, Roster, RosterMember};
use portolan_api::ApiError;

/// Finds the members a target means, in the order of the config.
pub fn find(roster: &Roster, target: &str) -> Result<Vec<MemberAt>, ApiError> {
    let target = target.trim();
    let found = if let Some(site) = target.strip_prefix("site:") {
        members(roster, |_, member| member.site.as_deref().is_some_and(|name| glob(site, name)))
    } else if let Some(link) = target.strip_prefix("link:") {
        members(roster, |_, member| member.place().is_some_and(|place| glob(link, &place)))
    } else {
        let (service, member) = target.split_once('/').map_or((target, None), |(a, b)| (a, Some(b)));
        by_service(roster, service, member)
    };
    if found.is_empty() { Err(unknown(roster, target)) } else { Ok(found) }
}

/// Whether a service's name is meant: exactly, or by a pattern.
#[must_use]
pub fn is_service(pattern: &str, name: &str) -> bool {
    let plain = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    glob(&plain(pattern), &plain(name))
}

fn by_service(roster: &Roster, service: &str, member: Option<&str>) -> Vec<MemberAt> {
    // a wildcard service can be named exactly, without meaning all that its name would match
    let plain = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let is_exact = roster.services.iter().any(|one| plain(&one.name) == plain(service));
    members(roster, |name, one| {
        let is_service = if is_exact { plain(name) == plain(service) } else { is_service(service, name) };
        is_service && member.is_none_or(|member| is_member(member, one))
    })
}

fn is_member(pattern: &str, member: &RosterMember) -> bool {
    glob(pattern, &member.name)
        || member.data.iter().any(|data| glob(pattern, data))
        || member.site.as_deref().is_some_and(|site| glob(pattern, site))
        || member.place().is_some_and(|place| glob(pattern, &place))
}

fn members(roster: &Roster, is_meant: impl Fn(&str, &RosterMember) -> bool) -> Vec<MemberAt> {
    let all = roster.services.iter().enumerate().flat_map(|(service, one)| {
        one.members
            .iter()
            .enumerate()
            .map(move |(member, it)| (MemberAt { service, member }, one.name.as_str(), it))
    });
    all.filter(|(_, name, member)| is_meant(name, member)).map(|(at, _, _)| at).collect()
}

fn unknown(roster: &Roster, target: &str) -> ApiError {
    let mut known: Vec<String> = Vec::new();
    for service in &roster.services {
        let name = service.name.trim_end_matches('.');
        known.push(name.to_owned());
        for member in &service.members {
            known.push(format!("{name}/{}", member.name));
            known.extend(member.data.iter().map(|data| format!("{name}/{data}")));
            known.extend(member.site.iter().map(|site| format!("site:{site}")));
            if let Some(place) = member.place() {
                known.push(format!("{name}/{place}"));
                known.push(format!("link:{place}"));
            }
        }
    }
    let what = format!("nothing here is meant by the target {target:?}");
    let list = "`portolan services` lists services and members; a target is SERVICE, SERVICE/MEMBER, site:NAME or link:SITE/NAME";
    match nearest(target, known.iter().map(String::as_str)) {
        Some(near) => ApiError::not_found(what, format!("did you mean {near:?}? {list}")),
        None => ApiError::not_found(what, list),
    }
}

/// The known word that is most like `word`, if one is like it at all.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count().div_ceil(3);
    known
        .map(|name| (distance(word, name), name))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, n)| n)
}

/// Edits between two words (Levenshtein); words are cut at 256 characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(256).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(256).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Whether `*` (anything) and `?` (one character) make `pattern` into `text`. Linear in both but for one retry point.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut retry) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::RosterService;

    fn roster() -> Roster {
        let member = |name: &str, site: &str, link: Option<&str>, data: &str| RosterMember {
            name: name.into(),
            site: Some(site.into()),
            link: link.map(Into::into),
            data: vec![data.into()],
            ..RosterMember::default()
        };
        let service =
            |name: &str, members| RosterService { name: name.into(), members, ..RosterService::default() };
        Roster {
            services: vec![
                service(
                    "www.example.com.",
                    vec![
                        member("ct1", "beijing", Some("ct"), "192.0.2.10"),
                        member("cu1", "beijing", Some("cu"), "198.51.100.10"),
                        member("fra", "frankfurt", None, "203.0.113.10"),
                    ],
                ),
                service("*.example.com.", vec![member("any", "beijing", Some("ct"), "192.0.2.20")]),
            ],
            servers: Vec::new(),
        }
    }

    #[test]
    fn targets() {
        let roster = roster();
        let cases: [(&str, &[(usize, usize)]); 12] = [
            ("www.example.com", &[(0, 0), (0, 1), (0, 2)]),
            ("WWW.Example.com.", &[(0, 0), (0, 1), (0, 2)]),
            ("*.example.com", &[(1, 0)]),
            ("*", &[(0, 0), (0, 1), (0, 2), (1, 0)]),
            ("w*", &[(0, 0), (0, 1), (0, 2)]),
            ("www.example.com/ct1", &[(0, 0)]),
            ("www.example.com/198.51.100.10", &[(0, 1)]),
            ("www.example.com/beijing", &[(0, 0), (0, 1)]),
            ("www.example.com/beijing/c?", &[(0, 0), (0, 1)]),
            ("site:frankfurt", &[(0, 2)]),
            ("link:beijing/ct", &[(0, 0), (1, 0)]),
            ("*/192.0.2.*", &[(0, 0), (1, 0)]),
        ];
        for (target, expected) in cases {
            let found: Vec<_> =
                find(&roster, target).unwrap().iter().map(|at| (at.service, at.member)).collect();
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn unknown_targets_say_what_was_probably_meant() {
        let roster = roster();
        for (target, near) in [
            ("ww.example.com", Some("www.example.com")),
            ("site:bejing", Some("site:beijing")),
            ("link:beijing/cx", Some("link:beijing/c")),
            ("www.example.com./192.0.2.11", Some("192.0.2.10")),
            ("www.example.com/beijing/cx", Some("www.example.com/beijing/c")),
            ("completely different", None),
        ] {
            let error = find(&roster, target).unwrap_err();
            let remedy = error.remedy.unwrap();
            assert_eq!(error.status, 404);
            assert_eq!(remedy.contains("did you mean"), near.is_some(), "{target}: {remedy}");
            assert!(near.is_none_or(|near| remedy.contains(near)), "{target}: {remedy}");
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, is) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*a*a*a*b", &"a".repeat(300), false),
            ("?", "", false),
            ("??", "éé", true),
        ] {
            assert_eq!(glob(pattern, text), is, "{pattern} {text}");
        }
    }
}
