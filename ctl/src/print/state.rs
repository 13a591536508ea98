//! Status, services, checks and what commands did.

use super::columns;
use crate::Paint;
use crate::time::{age, ago, length, until};
use portolan_api::{
    CheckStatus, ForceAction, ForceResult, ForcedEntry, MemberStatus, ReloadResult, ServiceStatus, Status,
};

/// The node in one look.
#[must_use]
pub fn status(status: &Status, paint: Paint) -> String {
    let (services, checks) = (&status.services, &status.checks);
    let mut text = format!(
        "{} at {}, portolan {}, up {}\n",
        paint.bold(&status.node),
        status.site,
        status.version,
        length(status.uptime_s)
    );
    let reloads = match status.config.reloads {
        0 => String::new(),
        1 => ", 1 reload".into(),
        n => format!(", {n} reloads"),
    };
    text +=
        &format!("config    {}, loaded {}{reloads}\n", status.config.path, ago(status.config.loaded_unix));
    if let Some(error) = &status.config.last_error {
        text += &paint.bad(&format!("          the last reload was refused: {}", first_of(error)));
        text += &format!("; `portolan check -c {}` shows all\n", status.config.path);
    }
    let listen = if status.listen.is_empty() { "nowhere".into() } else { status.listen.join(", ") };
    text += &format!("listen    {listen}\n");
    text += &format!(
        "services  {}: {} healthy, {} impaired, {} failed\n",
        services.total,
        services.healthy,
        count(services.impaired, |text| paint.warn(text)),
        count(services.failed, |text| paint.bad(text)),
    );
    text += &format!(
        "checks    {}: {} up, {} down, {} unknown\n",
        checks.total,
        checks.up,
        count(checks.down, |text| paint.bad(text)),
        checks.unknown
    );
    for (number, table) in status.tables.iter().enumerate() {
        let head = if number == 0 { "tables  " } else { "        " };
        let age = table.age_s.map_or(String::new(), |age| format!(", the oldest {} old", length(age)));
        let id =
            table.id.as_deref().map_or(String::new(), |id| format!(", id {}", id.get(..12).unwrap_or(id)));
        let files = if table.files == 1 { "1 file".into() } else { format!("{} files", table.files) };
        text += &format!("{head}  {}: {files}, {} entries{age}{id}\n", table.name, table.entries);
    }
    if let Some(peers) = &status.peers {
        text += &super::peers::summary(peers, paint);
    }
    if let Some(proximity) = &status.proximity {
        text += &super::proximity::status(proximity, paint);
    }
    for (number, entry) in status.forced.iter().enumerate() {
        let head = if number == 0 { "forced  " } else { "        " };
        text += &format!("{head}  {}/{}: {}\n", entry.service, entry.member, forced_words(entry, paint));
    }
    for (number, mode) in status.degraded.iter().enumerate() {
        let head = if number == 0 { "degraded" } else { "        " };
        text += &format!("{head}  {}: {}\n", paint.warn(&mode.mode), mode.detail);
    }
    text
}

/// The first problem of a report with its place, in one line.
fn first_of(report: &str) -> String {
    let mut lines = report.lines().map(str::trim);
    let message = lines.next().unwrap_or_default();
    match lines.next().and_then(|line| line.strip_prefix("--> ")) {
        Some(place) => format!("{message} ({place})"),
        None => message.to_owned(),
    }
}

fn count(number: u32, paint: impl Fn(&str) -> String) -> String {
    if number == 0 { "0".into() } else { paint(&number.to_string()) }
}

/// Services and their members.
#[must_use]
pub fn services(services: &[ServiceStatus], paint: Paint) -> String {
    let mut text = String::new();
    for service in services {
        text +=
            &format!("{}  {}\n", paint.bold(&service.name), by_state(&service.state, &service.state, paint));
        let rows: Vec<[String; 5]> = service
            .members
            .iter()
            .map(|member| {
                let usable = if member.usable { "usable" } else { "out" };
                let share = format!("tier {} weight {}{}", member.tier, member.weight, ramp(member));
                let inside = member.inside.as_ref().map_or(String::new(), |at| format!(" (inside {at})"));
                [usable.into(), format!("{}{inside}", member.name), share, since(member), why(member)]
            })
            .collect();
        let table = columns(&rows, |column, cell, usable| match column {
            0 => by_state(usable, cell, paint),
            _ => cell.to_owned(),
        });
        for line in table.lines() {
            text += &format!("  {line}\n");
        }
    }
    if services.is_empty() { "no services\n".into() } else { text }
}

fn ramp(member: &MemberStatus) -> String {
    member.ramp_percent.map_or(String::new(), |percent| format!(" at {percent} %"))
}

fn since(member: &MemberStatus) -> String {
    member
        .since_unix
        .map_or_else(|| member.state.clone(), |unix| format!("{} for {}", member.state, age(unix)))
}

fn why(member: &MemberStatus) -> String {
    let mut words = Vec::new();
    match &member.forced {
        Some(entry) => words.push(forced_words(entry, Paint::OFF)),
        None if !member.usable => words.push(member.why.clone()),
        None => {}
    }
    if !member.reason.is_empty() {
        words.push(member.reason.clone());
    }
    words.join("; ")
}

fn forced_words(entry: &ForcedEntry, paint: Paint) -> String {
    let what = match entry.action {
        ForceAction::Drain => "draining",
        ForceAction::Disable => "disabled",
        ForceAction::Enable => "enabled",
        ForceAction::Up => "forced up",
        ForceAction::Down => "forced down",
    };
    let by = if entry.author.is_empty() { String::new() } else { format!(" by {}", entry.author) };
    let reason = if entry.reason.is_empty() { String::new() } else { format!(" ({})", entry.reason) };
    let end = entry.until_unix.map_or(String::new(), |unix| format!(", {}", until(unix)));
    format!("{}{by} {}{reason}{end}", paint.warn(what), ago(entry.at_unix))
}

/// Health checks.
#[must_use]
pub fn checks(checks: &[CheckStatus], paint: Paint) -> String {
    let rows: Vec<[String; 5]> = checks
        .iter()
        .map(|check| {
            let since = check.since_unix.map_or(String::new(), |unix| format!("for {}", age(unix)));
            [check.state.clone(), check.name.clone(), since, of_services(check), words(check)]
        })
        .collect();
    if rows.is_empty() {
        return "no checks\n".into();
    }
    columns(
        &rows,
        |column, cell, state| if column == 0 { by_state(state, cell, paint) } else { cell.to_owned() },
    )
}

/// The services that a check is for; two checks of one target are told apart by them.
fn of_services(check: &CheckStatus) -> String {
    let mut services: Vec<&str> =
        check.used_by.iter().map(|user| user.split('/').next().unwrap_or(user)).collect();
    services.dedup();
    match services.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// Why the state is so, and the newest verdict where it is of the other kind.
fn words(check: &CheckStatus) -> String {
    match &check.last {
        Some(last) if last.good != (check.state == "up") => format!("{}; last {}", check.reason, last.text),
        Some(_) | None => check.reason.clone(),
    }
}

fn by_state(state: &str, text: &str, paint: Paint) -> String {
    match state {
        "up" | "usable" | "healthy" => paint.good(text),
        "down" | "out" | "failed" => paint.bad(text),
        _ => paint.warn(text),
    }
}

/// What a force did.
#[must_use]
pub fn forced(action: ForceAction, result: &ForceResult, paint: Paint) -> String {
    let what = match action {
        ForceAction::Drain => "draining",
        ForceAction::Disable => "disabled",
        ForceAction::Enable => "enabled",
        ForceAction::Up => "forced up",
        ForceAction::Down => "forced down",
    };
    let mut text = touched(what, &result.members);
    for warning in &result.warnings {
        text += &format!("{} {warning}\n", paint.warn("warning:"));
    }
    text
}

/// Which members a command touched.
#[must_use]
pub fn touched(what: &str, members: &[String]) -> String {
    members.iter().map(|member| format!("{what}  {member}\n")).collect()
}

/// What a reload did.
#[must_use]
pub fn reloaded(result: &ReloadResult, paint: Paint) -> String {
    let mut text = format!("reloaded in {} ms (generation {})\n", result.took_ms, result.generation);
    for warning in &result.warnings {
        // a warning about a whole file has no line
        let place = match (warning.line, warning.column) {
            (0, _) => warning.file.clone(),
            (line, column) => format!("{}:{line}:{column}", warning.file),
        };
        text += &format!("{} {place}: {}\n", paint.warn("warning:"), warning.message);
    }
    text
}
