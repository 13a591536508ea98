//! The processor time that a process with all its threads and children has used, and its memory, from /proc.

use std::fs;
use std::path::PathBuf;

/// Time used so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Nanoseconds on a core, from the scheduler: exact.
    pub run_ns: u64,
    /// Timer ticks found in user space: coarse, meant to be summed over many bursts.
    pub user_ticks: u64,
    /// Timer ticks found in the kernel.
    pub system_ticks: u64,
}

impl CpuTime {
    /// What `root` and its descendants have used. Processes that have ended meanwhile count as nothing.
    pub fn of_tree(root: u32) -> Self {
        let mut total = Self::default();
        for task in tree(root).iter().flat_map(|&pid| tasks(pid)) {
            let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
            total.run_ns += first_number(&read("schedstat"));
            let (user, system) = ticks(&read("stat"));
            total.user_ticks += user;
            total.system_ticks += system;
        }
        total
    }

    /// What was used between `earlier` and now.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
        }
    }
}

/// Megabytes that `root` and its descendants hold, what they share counted once.
pub fn memory_mb(root: u32) -> f64 {
    let pss_kb = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.map_or(0, first_number)
    };
    tree(root).into_iter().map(pss_kb).sum::<u64>() as f64 / 1024.0
}

/// A server has a handful of processes; the bound keeps a fork bomb from holding us.
const PROCESSES: usize = 1024;

fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next).filter(|_| found.len() < PROCESSES) {
        for task in tasks(pid) {
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    found
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.flatten().map(|task| task.path()).collect()
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// proc(5): the name is in parentheses and may hold anything; utime and stime are the 12th and 13th after it.
fn ticks(stat: &str) -> (u64, u64) {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = after_name.split_whitespace().skip(11).map(|word| word.parse().unwrap_or(0));
    (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_an_odd_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 93 0 0 0 21 43 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), (21, 43));
        assert_eq!(ticks(""), (0, 0));
    }

    #[test]
    fn our_own_time_grows() {
        let before = CpuTime::of_tree(std::process::id());
        let mut sum = 0u64;
        for number in 0..20_000_000u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let used = CpuTime::of_tree(std::process::id()).since(before);
        assert!(used.run_ns > 0, "{used:?} {sum}");
        assert!(memory_mb(std::process::id()) > 0.5);
    }
}
