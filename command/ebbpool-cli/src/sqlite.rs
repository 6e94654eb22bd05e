//! `ebbpool sqlite`: databases of SQLite that go through the VFS of `ebbpool-sqlite`, and those that could.

pub(crate) mod args;
#[cfg(all(feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod captured;
mod card;
mod check;
mod error;
mod libraries;
mod measure;
mod program;
mod recover;
mod run;
mod status;

use std::path::{Path, PathBuf};

use ebbpool_lab::numbers::grouped;
use ebbpool_lab::schema::ResultSchema;
use ebbpool_sqlite::inspect::{SqliteInspection, inspect, linked_database};
use serde::Serialize;

use crate::failure::Failure;
use crate::shared_args::RunFormat;
use args::{SqliteArgs, SqliteCommand};
pub(crate) use ebbpool_cost::escaped;
use error::SqliteError;
pub(crate) use libraries::extension_file;

/// The schemas of the subcommands that print JSON.
pub(crate) fn schemas() -> [ResultSchema; 4] {
    [status::schema(), check::schema(), recover::schema(), measure::schema()]
}

/// Runs one of the subcommands.
pub(crate) fn sqlite(args: &SqliteArgs) -> Result<(), Failure> {
    let done = match &args.command {
        SqliteCommand::Run(args) => run::run(args),
        SqliteCommand::Status(args) => status::status(args),
        SqliteCommand::Check(args) => check::check(args),
        SqliteCommand::Recover(args) => recover::recover(args),
        SqliteCommand::Measure(args) => measure::measure(args),
        SqliteCommand::Libraries(args) => libraries::libraries(args),
    };
    done.map_err(failure)
}

fn failure(error: SqliteError) -> Failure {
    match error {
        SqliteError::Output(error) => Failure::Output(error),
        SqliteError::Passed(failure) => *failure,
        SqliteError::Program { .. } | SqliteError::NoProgram { .. } => Failure::Program {
            code: match error {
                SqliteError::NoProgram { .. } => 127,
                _ => 126,
            },
            error: error.into(),
        },
        error => Failure::Command { usage: error.is_usage(), error: error.into() },
    }
}

/// The database that the user names, without a symbolic link: its log is beside what the link leads to.
fn named(path: &Path) -> Result<PathBuf, SqliteError> {
    linked_database(path).map_err(SqliteError::reading(path))
}

/// What the files of a database say.
fn inspected(path: &Path) -> Result<SqliteInspection, SqliteError> {
    inspect(path).map_err(SqliteError::reading(path))
}

/// A number of things as words.
fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{} {thing}s", grouped(count)),
    }
}

/// Prints a result as JSON, or as the text of the function.
fn print<R: Serialize>(result: &R, format: RunFormat, to_text: impl FnOnce(&R) -> String) -> Result<(), SqliteError> {
    format.print(result, to_text).map_err(SqliteError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_in_the_singular() {
        let texts = [0, 1, 2000].map(|count| counted(count, "epoch"));
        assert_eq!(texts, ["0 epochs", "1 epoch", "2,000 epochs"]);
    }
}
