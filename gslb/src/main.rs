//! `portolan`: see `portolan --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    portolan_gslb::cli::main().into()
}
