//! An external command: exit 0 is good. Running it is the transport's work; here its result is judged.

use super::{Verdict, What};
use crate::def::DefError;

/// Options of `check.command`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandDef {
    /// `argv`: the program and its arguments; no shell is involved.
    pub argv: Vec<String>,
    /// `env`: more variables for its environment, which otherwise holds only `PATH`, `LANG`, `PORTOLAN_TARGET` and
    /// `PORTOLAN_PORT`.
    pub env: Vec<(String, String)>,
}

impl CommandDef {
    pub(super) fn problems(&self, errors: &mut Vec<DefError>) {
        if self.argv.first().is_none_or(String::is_empty) {
            errors.push(DefError::new("argv", "is empty; give the program and its arguments as a list"));
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            errors.push(DefError::new("argv", "holds a NUL octet"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                errors.push(DefError::new("env", format!("{name:?} cannot be set as a variable")));
            }
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// The verdict on a command's end and on the first lines it printed. `load=0.42`, anywhere in the first line, is the
/// load it reports.
pub(crate) fn judge(ended: Ended, output: &[u8], errors: &[u8]) -> Verdict {
    let line = first_line(output);
    let said = if line.is_empty() { first_line(errors) } else { line.clone() };
    match ended {
        Ended::Code(0) => {
            let load = line.split_ascii_whitespace().find_map(|word| parse_load(word.strip_prefix("load=")?));
            match Verdict::good(if line.is_empty() { "exit 0".to_owned() } else { line }) {
                Verdict::Good { note, .. } => Verdict::Good { note, load },
                bad @ Verdict::Bad(_) => bad,
            }
        }
        Ended::Code(code) => Verdict::bad(What::Exit, format!("exit {code}: {said}")),
        Ended::Signal(signal) => Verdict::bad(What::Exit, format!("killed by signal {signal}: {said}")),
    }
}

/// A load is a plain number from 0 on, 1 being full; `85%` is accepted as 0.85.
pub(super) fn parse_load(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let load = number.trim().parse::<f64>().ok()? / scale;
    (load.is_finite() && load >= 0.0).then_some(load)
}

fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let good = |note: &str, load| Verdict::Good { note: note.into(), load };
        let table: &[(Ended, &str, &str, Verdict)] = &[
            (Ended::Code(0), "", "", good("exit 0", None)),
            (Ended::Code(0), "fine load=0.42 x\nmore load=9\n", "", good("fine load=0.42 x", Some(0.42))),
            (Ended::Code(0), "load=85%", "", good("load=85%", Some(0.85))),
            (Ended::Code(0), "load=-1", "", good("load=-1", None)),
            (Ended::Code(0), "load=nan", "", good("load=nan", None)),
            (Ended::Code(0), "load=1.5", "", good("load=1.5", Some(1.5))),
            (Ended::Code(3), "", "no route\n", Verdict::bad(What::Exit, "exit 3: no route")),
            (Ended::Code(1), "out\n", "err\n", Verdict::bad(What::Exit, "exit 1: out")),
            (Ended::Signal(9), "", "", Verdict::bad(What::Exit, "killed by signal 9: ")),
        ];
        for (ended, output, errors, want) in table {
            assert_eq!(judge(*ended, output.as_bytes(), errors.as_bytes()), *want, "{ended:?} {output:?}");
        }
    }
}
