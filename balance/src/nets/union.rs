//! Named lists -> ranges of sets: an address is in every list that covers it.

use std::collections::BTreeSet;

use super::address::Address;
use super::runs::{Run, Runs, SetRuns, push_run};
use super::sets::Interner;

/// Merges lists; the items of the sets are the lists' indexes. A list covers what has a value other than 0.
pub fn union(lists: &[Runs]) -> SetRuns {
    let mut sets = Interner::new();
    let mut result = SetRuns::default();
    result.runs.v4 = union_family(lists.iter().map(|list| list.v4.as_slice()), &mut sets);
    result.runs.v6 = union_family(lists.iter().map(|list| list.v6.as_slice()), &mut sets);
    result.sets = sets.into_sets();
    result
}

fn union_family<'a, A: Address + 'a>(
    lists: impl Iterator<Item = &'a [Run<A>]>,
    sets: &mut Interner,
) -> Vec<Run<A>> {
    let mut edges: Vec<(A, bool, u32)> = Vec::new();
    for (list, runs) in (0u32..).zip(lists) {
        for run in runs.iter().filter(|run| run.value != 0) {
            edges.push((run.first, true, list));
            // a run up to the last address never ends
            edges.extend(run.last.next().map(|after| (after, false, list)));
        }
    }
    edges.sort_unstable();
    let mut runs = Vec::new();
    let mut inside: BTreeSet<u32> = BTreeSet::new();
    let mut set = Vec::new();
    let mut at = edges.chunk_by(|a, b| a.0 == b.0).peekable();
    while let Some(group) = at.next() {
        // "ends here" sorts before "starts here", so a list whose next run follows at once stays in
        for &(_, starts, list) in group {
            if starts {
                inside.insert(list)
            } else {
                inside.remove(&list)
            };
        }
        let Some(&(first, ..)) = group.first() else {
            continue;
        };
        let last = at.peek().and_then(|next| next.first()).map_or(A::MAX, |edge| edge.0.before());
        set.clear();
        set.extend(&inside);
        push_run(&mut runs, Run { first, last, value: sets.id(&set) });
    }
    runs
}
