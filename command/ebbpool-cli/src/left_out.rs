//! Commands that a build has left out, since building them takes long and the first question needs none of them.

use std::ffi::OsString;

use clap::CommandFactory;
use ebbpool_cost::nearest;

use crate::args::Cli;
use crate::failure::Failure;

/// The commands that this program was built without although this system could have them; each is a feature of its name.
const LEFT_OUT: &[&str] = &[
    #[cfg(all(not(feature = "capture"), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    "capture",
    #[cfg(not(feature = "completions"))]
    "completions",
    #[cfg(all(not(feature = "db"), unix))]
    "db",
    #[cfg(not(feature = "device"))]
    "device",
    #[cfg(not(feature = "man"))]
    "man",
    #[cfg(all(not(feature = "replay"), unix))]
    "replay",
    #[cfg(not(feature = "reproduce"))]
    "reproduce",
    #[cfg(all(not(feature = "sqlite"), target_os = "linux"))]
    "sqlite",
];

const REMEDY: &str = "cargo install --path command/ebbpool-cli --features all --locked";

/// The end of the help: examples, and what this program was built without.
pub(crate) fn help(examples: &str) -> String {
    match LEFT_OUT {
        [] => examples.to_owned(),
        names => format!("{examples}\n\nBuilt without {}; all commands: {REMEDY}", names.join(", ")),
    }
}

/// # Errors
///
/// If the arguments, of which the first is the program's name, ask for a command that this program was built without, also
/// by a name that is nearer to its than to those of the commands that it has.
pub(crate) fn check(arguments: &[OsString]) -> Result<(), Failure> {
    let Some(asked) = asked_for(arguments) else {
        return Ok(());
    };
    let cli = Cli::command();
    let has: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let Some(name) = meant(asked, &has, LEFT_OUT) else {
        return Ok(());
    };
    let unknown = match asked == name {
        true => String::new(),
        false => format!("there is no command '{asked}' (did you mean '{name}'?); "),
    };
    Err(Failure::Usage(format!("{unknown}this program was built without '{name}'; install it with all commands: {REMEDY}")))
}

/// The command that the arguments ask for, or for its help.
fn asked_for(arguments: &[OsString]) -> Option<&str> {
    let mut words = arguments.iter().skip(1);
    words.find(|word| *word != "help")?.to_str()
}

/// The command that was left out and that the word names, or is nearest to.
fn meant<'a>(word: &str, has: &[&'a str], left_out: &[&'a str]) -> Option<&'a str> {
    if has.contains(&word) || word.starts_with('-') {
        return None;
    }
    let all = has.iter().chain(left_out).copied();
    nearest(word, all).filter(|name| left_out.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_asked_for() {
        let asked = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            asked_for(&words).map(str::to_owned)
        };
        assert_eq!(asked(&["ebbpool", "sqlite", "run"]).as_deref(), Some("sqlite"));
        assert_eq!(asked(&["ebbpool", "help", "db"]).as_deref(), Some("db"));
        assert_eq!(asked(&["ebbpool", "compare", "db"]).as_deref(), Some("compare"));
        assert_eq!(asked(&["sqlite"]), None);
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn no_help_names_a_command_that_another_build_leaves_out() {
        let optional = "capture completions db device man replay reproduce sqlite";
        let optional: Vec<&str> = optional.split(' ').collect();
        for mut command in Cli::command().get_subcommands().cloned() {
            if optional.contains(&command.get_name()) {
                continue;
            }
            let help = command.render_long_help().to_string();
            let words: Vec<&str> = help.split_whitespace().collect();
            for pair in words.windows(2) {
                let names = pair[0].ends_with("ebbpool") || pair[0] == "schema";
                assert!(!names || !optional.contains(&pair[1]), "{pair:?}: {help}");
            }
        }
    }

    #[test]
    fn a_word_means_the_command_that_it_is_nearest_to() {
        let left_out = ["db", "reproduce", "sqlite"];
        let meant = |word| meant(word, &["compare", "replay"], &left_out);
        assert_eq!(meant("db"), Some("db"));
        assert_eq!(meant("sqlit"), Some("sqlite"));
        assert_eq!(meant("repro"), Some("reproduce"));
        for other in ["compare", "compar", "rep", "repla", "--help", "x"] {
            assert_eq!(meant(other), None);
        }
    }
}
