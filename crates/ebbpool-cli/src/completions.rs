//! `ebbpool completions`: what a shell needs to complete the command line.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, ValueHint};
use ebbpool_policy::registry;
use ebbpool_trace::Format;

use crate::Failure;
use crate::args::{Cli, CompletionsArgs};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut command = with_values(Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ebbpool", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}

/// The command as a shell should see it: where the program takes more than a list could say, such
/// as a policy with parameters, the shell offers the names.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "policy" | "policies" => arg.value_parser(PossibleValuesParser::new(policy_names())),
        "trace_format" | "to_format" => {
            let formats = Format::ALL.iter().map(|format| format.name());
            arg.value_parser(PossibleValuesParser::new(formats))
        }
        "trace" | "traces" | "from" => arg.value_hint(ValueHint::FilePath),
        "directory" => arg.value_hint(ValueHint::DirPath),
        _ => arg,
    }
}

fn policy_names() -> Vec<&'static str> {
    let names = |entry: &'static ebbpool_policy::Entry| {
        std::iter::once(entry.name).chain(entry.aliases.iter().map(|(alias, _)| *alias))
    };
    registry::entries().iter().flat_map(names).collect()
}
