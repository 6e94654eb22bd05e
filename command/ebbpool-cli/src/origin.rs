//! What a report says about its making.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::SystemTime;

use ebbpool_lab::report::ReportOptions;

use crate::shell::command_line;

/// The arguments of the command that runs, its name first.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Stores the arguments of the command. A process runs one command.
pub(crate) fn set_arguments(arguments: Vec<OsString>) {
    let _ = ARGUMENTS.set(arguments);
}

/// The command that runs and the present time.
pub(crate) fn report_options() -> ReportOptions {
    let arguments = ARGUMENTS.get().into_iter().flatten().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let words: Vec<String> = ["ebbpool".into()].into_iter().chain(arguments).collect();
    let mut options = ReportOptions::default();
    options.command = Some(command_line(&words));
    options.date = Some(SystemTime::now());
    options
}
