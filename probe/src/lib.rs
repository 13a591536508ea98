//! Health checks: one file a kind, and the runner.

mod def;
mod kind;
mod matcher;
mod target;
mod verdict;

pub use self::{
    def::{CheckDef, DefError, Initial, LONGEST, SHORTEST, Timing},
    kind::{
        Codes, CommandDef, DnsDef, HttpDef, IcmpDef, KindDef, Roots, TcpDef, TlsDef, rcode_number,
        type_number,
    },
    matcher::{Match, Pattern},
    target::{CheckKey, Host, Target},
    verdict::{Exchange, Reason, Step, Verdict, What},
};
