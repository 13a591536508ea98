//! Instruction counts of the hot path against the committed baseline.
//!
//! The counts come from gungraun's summaries (`GUNGRAUN_SAVE_SUMMARY=json`); they are the same on a busy machine, so a few
//! percent decide. They do depend on the compiler: after an update of it the baseline is written anew.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Result;

/// Benchmark to instructions.
pub type Counts = BTreeMap<String, u64>;

/// How a benchmark stands to its baseline.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Verdict {
    /// Within the tolerance.
    Same,
    /// Fewer than the tolerance allows: worth a new baseline.
    Better,
    /// More than the tolerance allows.
    Worse,
    /// Not in the baseline.
    New,
    /// In the baseline only.
    Gone,
}

/// Reads the instruction counts out of every `summary.json` below `folder`.
///
/// # Errors
/// When a summary cannot be read or says no instructions.
pub fn read_summaries(folder: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.file_name().is_some_and(|name| name == "summary.json") {
                let summary = serde_json::from_slice(&std::fs::read(&path)?)?;
                let (name, count) = instructions(&summary)
                    .ok_or_else(|| format!("{}: no instruction count", path.display()))?;
                counts.insert(name, count);
            }
        }
    }
    Ok(counts)
}

/// Compares `found` with `baseline`; a change of up to `tolerance` (0.03 = 3 %) is none.
pub fn compare(found: &Counts, baseline: &Counts, tolerance: f64) -> BTreeMap<String, Verdict> {
    let mut verdicts: BTreeMap<String, Verdict> =
        baseline.keys().map(|name| (name.clone(), Verdict::Gone)).collect();
    for (name, &count) in found {
        let verdict = match baseline.get(name) {
            None => Verdict::New,
            Some(&base) if count as f64 > base as f64 * (1.0 + tolerance) => Verdict::Worse,
            Some(&base) if (count as f64) < base as f64 * (1.0 - tolerance) => Verdict::Better,
            Some(_) => Verdict::Same,
        };
        verdicts.insert(name.clone(), verdict);
    }
    verdicts
}

/// A summary's benchmark and its count: callgrind's `Ir` over the whole of the benchmark.
fn instructions(summary: &serde_json::Value) -> Option<(String, u64)> {
    let path = summary.get("module_path")?.as_str()?;
    let name = match summary.get("id").and_then(serde_json::Value::as_str) {
        Some(id) => format!("{path} {id}"),
        None => path.to_owned(),
    };
    let count = summary.pointer("/profiles/0/data/total/metrics/Ir/values/new")?.as_u64()?;
    Some((name, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_and_compared() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"module_path":"hot::hot::folds","id":"of_64","profiles":[{"data":{"parts":[],
            "total":{"metrics":{"Dr":{"values":{"new":5}},"Ir":{"values":{"new":18729,"old":18000}}}}}}]}"#;
        std::fs::create_dir(folder.path().join("folds")).unwrap();
        std::fs::write(folder.path().join("folds/summary.json"), text).unwrap();
        let found = read_summaries(folder.path()).unwrap();
        assert_eq!(found, Counts::from([("hot::hot::folds of_64".into(), 18_729)]));

        let baseline =
            |count: u64| Counts::from([("hot::hot::folds of_64".into(), count), ("other".into(), 1)]);
        for (count, verdict) in [
            (18_729, Verdict::Same),
            (18_200, Verdict::Same),
            (18_000, Verdict::Worse),
            (20_000, Verdict::Better),
        ] {
            let verdicts = compare(&found, &baseline(count), 0.03);
            assert_eq!(verdicts["hot::hot::folds of_64"], verdict, "{count}");
            assert_eq!(verdicts["other"], Verdict::Gone);
        }
        assert_eq!(compare(&found, &Counts::new(), 0.03)["hot::hot::folds of_64"], Verdict::New);
    }

    #[test]
    fn a_summary_without_a_count_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("summary.json"), r#"{"module_path":"a"}"#).unwrap();
        assert!(read_summaries(folder.path()).unwrap_err().to_string().contains("no instruction count"));
    }
}
