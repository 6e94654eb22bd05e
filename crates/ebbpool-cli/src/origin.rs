//! What a report says about its making.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::SystemTime;

use ebbpool_lab::report::ReportOptions;

/// The arguments of the command that runs, its name first.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Stores the arguments of the command. A process runs one command.
pub(crate) fn set_arguments(arguments: Vec<OsString>) {
    let _ = ARGUMENTS.set(arguments);
}

/// The command that runs and the present time.
pub(crate) fn report_options() -> ReportOptions {
    let arguments = ARGUMENTS.get().into_iter().flatten().skip(1);
    let arguments = arguments.map(|argument| quoted(&argument.to_string_lossy()));
    let command: Vec<String> = ["ebbpool".into()].into_iter().chain(arguments).collect();
    ReportOptions {
        command: Some(command.join(" ")),
        date: Some(SystemTime::now()),
    }
}

/// An argument as a POSIX shell takes it.
fn quoted(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+@".contains(letter);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.into(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        for (argument, text) in [
            ("--frames", "--frames"),
            ("zipf:pages=10,refs=20", "zipf:pages=10,refs=20"),
            ("3%", "3%"),
            ("", "''"),
            ("writes -50%", "'writes -50%'"),
            ("it's", r"'it'\''s'"),
            ("$(ls)", "'$(ls)'"),
        ] {
            assert_eq!(quoted(argument), text);
        }
    }
}
