//! Commands that a build has left out, since building them takes long and the first question needs none of them.

use std::ffi::OsString;

use crate::failure::Failure;

/// The commands that this program was built without although this system could have them; each is a feature of its name.
const LEFT_OUT: &[&str] = &[
    #[cfg(all(
        not(feature = "capture"),
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    "capture",
    #[cfg(all(not(feature = "db"), unix))]
    "db",
    #[cfg(not(feature = "reproduce"))]
    "reproduce",
    #[cfg(all(not(feature = "sqlite"), target_os = "linux"))]
    "sqlite",
];

const REMEDY: &str = "cargo install --path crates/ebbpool-cli --features all --locked";

/// The end of the help: examples, and what this program was built without.
pub(crate) fn help(examples: &str) -> String {
    match LEFT_OUT {
        [] => examples.to_owned(),
        names => format!(
            "{examples}\n\nBuilt without {}; all commands: {REMEDY}",
            names.join(", ")
        ),
    }
}

/// # Errors
///
/// If the arguments, of which the first is the program's name, ask for a command that this program was built without.
pub(crate) fn check(arguments: &[OsString]) -> Result<(), Failure> {
    let name = asked_for(arguments, LEFT_OUT);
    match name {
        None => Ok(()),
        Some(name) => Err(Failure::Usage(format!(
            "this program was built without '{name}'; install it with all commands: {REMEDY}"
        ))),
    }
}

/// The command of a list that the arguments ask for, or for its help.
fn asked_for<'a>(arguments: &[OsString], commands: &[&'a str]) -> Option<&'a str> {
    let mut words = arguments.iter().skip(1);
    let asked = words.find(|word| *word != "help")?;
    commands.iter().copied().find(|name| asked == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_itself_is_asked_for() {
        let asked = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            asked_for(&words, &["db", "sqlite"])
        };
        assert_eq!(asked(&["ebbpool", "sqlite", "run"]), Some("sqlite"));
        assert_eq!(asked(&["ebbpool", "help", "db"]), Some("db"));
        assert_eq!(asked(&["ebbpool", "compare", "db"]), None);
        assert_eq!(asked(&["ebbpool", "--help"]), None);
        assert_eq!(asked(&["sqlite"]), None);
        assert_eq!(asked(&[]), None);
    }
}
