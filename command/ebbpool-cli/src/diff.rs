//! `ebbpool diff`: compares two results of the same command.

pub(crate) mod args;
mod table;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ebbpool_lab::diff::{self, DiffError, ResultDiff, ResultFile};
use ebbpool_lab::schema as results_schema;
use ebbpool_trace::output::refuse_overwriting;

use crate::failure::Failure;
use crate::outputs;
use crate::schema;
use crate::shared_args::RunFormat;
use args::DiffArgs;

const STANDARD_INPUT: &str = "-";

impl From<DiffError> for Failure {
    /// The user has named files that cannot be compared: exit code 1 remains for differences.
    fn from(error: DiffError) -> Self {
        let hint = match &error {
            DiffError::OtherFormat { .. } => "; print them with --format json",
            DiffError::SameKey { .. } => "; compare the outputs of one run of the command each",
            _ => "",
        };
        Failure::Command { error: format!("{error}{hint}").into(), usage: true }
    }
}

pub(crate) fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let standard_input = Path::new(STANDARD_INPUT);
    if args.before == standard_input && args.after == standard_input {
        return Err(Failure::Usage("standard input can be one of the two files, not both; name a file for the other".into()));
    }
    if let Some(report) = &args.report {
        let inputs: Vec<PathBuf> = [&args.before, &args.after].map(PathBuf::clone).into();
        refuse_overwriting(&inputs, std::slice::from_ref(report))?;
    }
    let schemas = schema::all();
    let read = |path: &Path| -> Result<ResultFile, Failure> {
        let (label, bytes) = bytes_of(path)?;
        Ok(ResultFile::parse(&label, &bytes, &schemas)?)
    };
    let found = ResultDiff::new(&read(&args.before)?, &read(&args.after)?, args.noise.0)?;
    let mut out = outputs::results();
    match args.format {
        RunFormat::Json => results_schema::write_json(&mut out, &found)?,
        RunFormat::Table => write!(out, "{}", table::of_diff(&found, args.all))?,
    }
    if let Some(path) = &args.report {
        diff::write(outputs::create(path)?, &found)?;
        // The command does not fail because standard error takes no line.
        let _ = writeln!(io::stderr(), "report: {}", path.display());
    }
    match args.exit_code && found.has_differences() {
        true => Err(Failure::Different),
        false => Ok(()),
    }
}

/// The name of a file in messages, and its content.
fn bytes_of(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let (label, read) = match path == Path::new(STANDARD_INPUT) {
        true => {
            let mut bytes = Vec::new();
            let read = ebbpool_trace::standard_input().and_then(|mut input| input.read_to_end(&mut bytes));
            ("standard input".into(), read.map(|_| bytes))
        }
        false => (path.display().to_string(), fs::read(path)),
    };
    match read {
        Ok(bytes) => Ok((label, bytes)),
        Err(error) => Err(Failure::Command { error: format!("cannot read {label}: {error}").into(), usage: true }),
    }
}
