//! The `ebbpool` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebbpool_cli::main_from(std::env::args_os()).into()
}
