//! `depends_on`: services that others need, without circles (H20, L17).

use std::collections::HashMap;

use portolan_dns::name::Name;

use crate::place::Span;
use crate::problem::Problem;
use crate::spec::Spec;
use crate::suggest;

/// For each service the positions of those it depends on.
pub(crate) fn compile(spec: &Spec, problems: &mut Vec<Problem>) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<&Name, Vec<usize>> = HashMap::new();
    for (position, service) in spec.service.iter().enumerate() {
        by_name.entry(&service.name.value).or_default().push(position);
    }
    let mut depends = Vec::with_capacity(spec.service.len());
    for service in spec.service.iter() {
        let mut on = Vec::new();
        for name in &service.depends_on {
            match by_name.get(&name.value) {
                Some(positions) => on.extend(positions),
                None if !spec.service.is_whole() => {}
                None => {
                    let mut problem = Problem::error(
                        "unknown-name",
                        name.at,
                        format!("there is no service {}", name.value),
                    );
                    let names: Vec<String> =
                        spec.service.iter().map(|other| other.name.value.to_string()).collect();
                    problem.help =
                        suggest::nearest(&name.value.to_string(), names.iter().map(String::as_str))
                            .map(|near| format!("did you mean {near:?}?"));
                    problems.push(problem);
                }
            }
        }
        on.sort_unstable();
        on.dedup();
        depends.push(on);
    }
    circles(spec, &depends, problems);
    depends
}

/// Reports each circle once, at the dependency that closes it. The walk keeps its own stack: chains may be long.
fn circles(spec: &Spec, depends: &[Vec<usize>], problems: &mut Vec<Problem>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; depends.len()];
    let mark_of = |marks: &[Mark], at: usize| marks.get(at).copied().unwrap_or(Mark::Done);
    for start in 0..depends.len() {
        if mark_of(&marks, start) != Mark::New {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        if let Some(mark) = marks.get_mut(start) {
            *mark = Mark::Open;
        }
        while let Some((at, next)) = path.last_mut() {
            let Some(&on) = depends.get(*at).and_then(|on| on.get(*next)) else {
                if let Some(mark) = marks.get_mut(*at) {
                    *mark = Mark::Done;
                }
                path.pop();
                continue;
            };
            *next += 1;
            let from = *at;
            match mark_of(&marks, on) {
                Mark::Done => {}
                Mark::New => {
                    if let Some(mark) = marks.get_mut(on) {
                        *mark = Mark::Open;
                    }
                    path.push((on, 0));
                }
                Mark::Open => {
                    let circle = path.iter().map(|(at, _)| *at).skip_while(|at| *at != on).chain([on]);
                    let names: Vec<String> = circle
                        .filter_map(|at| spec.service.get(at))
                        .map(|it| it.name.value.to_string())
                        .collect();
                    let place = spec.service.get(from).zip(spec.service.get(on)).and_then(|(from, on)| {
                        from.depends_on.iter().find(|name| name.value == on.name.value).map(|name| name.at)
                    });
                    let message = format!("services depend on each other: {}", names.join(" -> "));
                    let problem = Problem::error("cycle", place.unwrap_or(Span::NOWHERE), message);
                    problems.push(problem.help("take one of these out of `depends_on`"));
                }
            }
        }
    }
}
