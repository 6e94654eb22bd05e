//! `ebbpool man`: writes a manual page for each command.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use ebbpool_trace::output::OutputFile;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let directory = &args.directory;
    let label = directory.display().to_string();
    fs::create_dir_all(directory).map_err(|source| Failure::File { path: label, source })?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write(&command, directory)
}

fn write(command: &Command, directory: &Path) -> Result<(), Failure> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    // Rendering into memory cannot fail; only writing the file can.
    page.render(&mut text)?;
    let path = directory.join(page.get_filename());
    let mut file = OutputFile::create(&path)?;
    let label = path.display().to_string();
    file.write_all(&text).map_err(|source| Failure::File { path: label.clone(), source })?;
    file.finish()?;
    writeln!(io::stdout(), "{label}")?;
    for subcommand in command.get_subcommands() {
        write(subcommand, directory)?;
    }
    Ok(())
}
