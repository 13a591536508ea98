//! `portolan`: see `portolan --help`.

use portolan_gslb::memory::LargePages;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: LargePages = LargePages;

fn main() -> ExitCode {
    portolan_gslb::cli::main().or_failed().into()
}
