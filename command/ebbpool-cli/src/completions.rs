//! `ebbpool completions`: prints the script that a shell needs to complete the command line.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use ebbpool_device::DeviceProfile;
use ebbpool_policy::registry;
use ebbpool_trace::{Format, generators};

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::schema;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut command = with_values(Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ebbpool", &mut script);
    match args.shell {
        Shell::Bash => io::stdout().write_all(with_lists(&String::from_utf8_lossy(&script)).as_bytes())?,
        _ => io::stdout().write_all(&script)?,
    }
    Ok(())
}

/// The script for bash, which offers names of policies also after a comma.
fn with_lists(script: &str) -> String {
    let mut parts = script.split("--policies)");
    let before = parts.next().unwrap_or_default().to_string();
    parts.fold(before, |text, part| {
        let last = "-P \"${cur%\"${cur##*,}\"}\" -W";
        let part = part.replacen("compgen -W", &format!("compgen {last}"), 1).replacen("-- \"${cur}\"", "-- \"${cur##*,}\"", 1);
        text + "--policies)" + &part
    })
}

/// The command with possible values for the shell. Where the program accepts more than a list can
/// contain, such as a policy with parameters, the shell offers the names.
fn with_values(command: Command) -> Command {
    let command = match command.get_name() {
        "schema" => {
            // The program ends when the script is printed.
            let names = schema::all().into_iter().map(|schema| &*schema.command.replace(' ', "-").leak());
            command.mut_arg("command", |arg| arg.value_parser(PossibleValuesParser::new(names)))
        }
        #[cfg(feature = "reproduce")]
        "reproduce" => {
            let all = ebbpool_experiments::select(&[], true).unwrap_or_default();
            let ids = all.into_iter().map(|(_, experiment)| &*experiment.id().to_string().leak());
            command.mut_arg("ids", |arg| arg.value_parser(PossibleValuesParser::new(ids)))
        }
        _ => command,
    };
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "policy" | "policies" | "now" => arg.value_parser(PossibleValuesParser::new(policy_names())),
        "trace_format" => arg.value_parser(PossibleValuesParser::new(format_names(|_| true))),
        "to_format" => arg.value_parser(PossibleValuesParser::new(format_names(Format::is_written))),
        "trace" | "traces" | "from" => arg.value_hint(ValueHint::FilePath),
        // Not where only simulated devices may be named.
        "device" if arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("NAME"))) => {
            let profiles = DeviceProfile::all().unwrap_or_default();
            arg.value_parser(PossibleValuesParser::new(profiles.iter().map(|profile| profile.name.as_str())))
        }
        "generator" => arg.value_parser(PossibleValuesParser::new(generators().map(|generator| generator.name))),
        "directory" => arg.value_hint(ValueHint::DirPath),
        _ => arg,
    }
}

fn format_names(which: fn(Format) -> bool) -> impl Iterator<Item = &'static str> {
    let formats = Format::ALL.iter().filter(move |&&format| which(format));
    formats.map(|format| format.name())
}

fn policy_names() -> Vec<&'static str> {
    let names = |entry: &'static ebbpool_policy::PolicyEntry| {
        std::iter::once(entry.name).chain(entry.aliases.iter().map(|(alias, _)| *alias))
    };
    registry::entries().iter().flat_map(names).collect()
}
