//! `ebbpool db`: a small database on the pool.

pub(crate) mod args;
mod backup;
mod bench;
mod check;
mod delete;
mod dump;
mod error;
mod get;
mod lines;
mod load;
mod open;
mod put;
mod shrink;
mod stats;

use ebbpool_lab::schema::ResultSchema;

use crate::failure::Failure;
use args::{DbArgs, DbCommand};
use error::DbError;

/// The schemas of the subcommands that print JSON.
pub(crate) fn schemas() -> [ResultSchema; 3] {
    [bench::schema(), check::schema(), stats::schema()]
}

/// Runs one of the subcommands.
pub(crate) fn db(args: &DbArgs) -> Result<(), Failure> {
    let done = match &args.command {
        DbCommand::Load(args) => load::load(args),
        DbCommand::Put(args) => put::put(args),
        DbCommand::Get(args) => get::get(args),
        DbCommand::Delete(args) => delete::delete(args),
        DbCommand::Dump(args) => dump::dump(args),
        DbCommand::Backup(args) => backup::backup(args),
        DbCommand::Shrink(args) => shrink::shrink(args),
        DbCommand::Check(args) => check::check(args),
        DbCommand::Stats(args) => stats::stats(args),
        DbCommand::Bench(args) => bench::bench(args),
    };
    done.map_err(|error| match error {
        DbError::Output(error) => Failure::Output(error),
        error => Failure::Command { usage: error.is_usage(), error: error.into() },
    })
}
