//! `ebbpool completions`: prints the script that a shell needs to complete the command line.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, ValueHint};
use ebbpool_policy::registry;
use ebbpool_trace::Format;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut command = with_values(Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ebbpool", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}

/// The command with possible values for the shell. Where the program accepts more than a list can
/// contain, such as a policy with parameters, the shell offers the names.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "policy" | "policies" | "now" => arg.value_parser(PossibleValuesParser::new(policy_names())),
        "trace_format" => arg.value_parser(PossibleValuesParser::new(format_names(|_| true))),
        "to_format" => arg.value_parser(PossibleValuesParser::new(format_names(Format::is_written))),
        "trace" | "traces" | "from" => arg.value_hint(ValueHint::FilePath),
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
