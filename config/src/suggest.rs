//! "Did you mean": the nearest of the names that would have been right.

/// The name nearest to `wrong`, when it is near enough to be what was meant.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong: Vec<char> = wrong.to_lowercase().replace('-', "_").chars().take(64).collect();
    let limit = (wrong.len() / 3).clamp(1, 4);
    names
        .into_iter()
        .filter(|name| name.len() <= 256)
        .map(|name| {
            let chars: Vec<char> = name.to_lowercase().replace('-', "_").chars().collect();
            (distance(&wrong, &chars), name)
        })
        .filter(|(distance, _)| *distance <= limit && *distance < wrong.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The remedy for a wrong name: the nearest one, else the list when it is short.
pub(crate) fn remedy<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(near) = nearest(wrong, names.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let list = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1..=24 => Some(format!("known here: {}", list())),
        _ => None,
    }
}

/// Insertions, deletions, changes and swaps of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i + 1);
        for (j, &y) in b.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best =
                (cell(&last, j) + usize::from(x != y)).min(cell(&last, j + 1) + 1).min(cell(&row, j) + 1);
            if i > 0 && j > 0 && a.get(i - 1) == Some(&y) && b.get(j - 1) == Some(&x) {
                best = best.min(cell(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let names = ["weight", "address", "check_address", "tier", "site"];
        for (wrong, right) in [
            ("wieght", Some("weight")),
            ("weights", Some("weight")),
            ("adress", Some("address")),
            ("check-address", Some("check_address")),
            ("tire", Some("tier")),
            ("banana", None),
            ("c", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }
}
