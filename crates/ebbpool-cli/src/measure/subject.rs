//! What is measured: something that exists, and may have to be asked for, or a file that is made.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use tempfile::TempPath;

use super::args::MeasureArgs;
use super::error::MeasureError;
use crate::failure::Failure;

const USUAL_SIZE: u64 = 1 << 30;

/// Blocks of file metadata are of so many bytes, whatever the device's are.
const STAT_BLOCK: u64 = 512;

pub(super) struct Subject {
    pub(super) path: PathBuf,
    /// Set for a file that was made: it is removed when this is dropped.
    temporary: Option<TempPath>,
    /// How many bytes are to be measured; nothing for all.
    pub(super) size: Option<u64>,
    pub(super) notes: Vec<String>,
}

impl Subject {
    /// Finds or makes it, and asks before anything is lost.
    pub(super) fn find(args: &MeasureArgs) -> Result<Self, Failure> {
        let path = &args.path;
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(args),
            Ok(found) if found.is_dir() => make_in(args),
            Ok(found) => existing(args, &found),
            Err(source) => Err(failed(path, "look at it", source)),
        }
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

fn failed(path: &Path, what: &'static str, source: io::Error) -> Failure {
    let path = path.into();
    MeasureError::Io { path, what, source }.into()
}

fn refuse_reading_nothing(args: &MeasureArgs) -> Result<(), Failure> {
    match args.read_only {
        true => Err(Failure::Usage(format!(
            "{}: there is no file to be read; name one that exists, or leave --read-only out",
            args.path.display()
        ))),
        false => Ok(()),
    }
}

fn made(args: &MeasureArgs, temporary: TempPath) -> Subject {
    Subject {
        path: temporary.to_path_buf(),
        temporary: Some(temporary),
        size: Some(args.size.map_or(USUAL_SIZE, |size| size.as_u64())),
        notes: Vec::new(),
    }
}

fn make(args: &MeasureArgs) -> Result<Subject, Failure> {
    refuse_reading_nothing(args)?;
    let path = &args.path;
    let make = File::create_new(path).and_then(|_| {
        // Its directory may be left by then, and a relative path would mean another file.
        TempPath::try_from_path(std::path::absolute(path)?)
    });
    let temporary = make.map_err(|source| failed(path, "make it", source))?;
    Ok(made(args, temporary))
}

fn make_in(args: &MeasureArgs) -> Result<Subject, Failure> {
    refuse_reading_nothing(args)?;
    let file = tempfile::Builder::new()
        .prefix(".ebbpool-measure-")
        .tempfile_in(&args.path)
        .map_err(|source| failed(&args.path, "make a file in it", source))?;
    Ok(made(args, file.into_temp_path()))
}

fn existing(args: &MeasureArgs, found: &Metadata) -> Result<Subject, Failure> {
    let path = &args.path;
    let is_device = found.file_type().is_block_device();
    if !args.read_only && (is_device || found.is_file()) {
        let what = match is_device {
            true => "is a block device".to_string(),
            false => format!("exists, with {}", ByteSize(found.len())),
        };
        permit(path, &what, args.yes)?;
    }
    let mut notes = Vec::new();
    if found.is_file() && found.blocks().saturating_mul(STAT_BLOCK) < found.len() / 10 * 9 {
        notes.push(format!(
            "{} has holes, and a device is not asked for what is in a hole",
            path.display()
        ));
    }
    Ok(Subject {
        path: path.clone(),
        temporary: None,
        size: args.size.map(|size| size.as_u64()),
        notes,
    })
}

/// Asks whether what is there may be lost.
fn permit(path: &Path, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let path = path.display();
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{path} {what}, and measuring writes destroys what is in it; say --yes if it may be lost, or --read-only"
        )));
    }
    let mut errors = io::stderr();
    write!(
        errors,
        "{path} {what}. Measuring writes destroys what is in it. Go on? [y/N] "
    )?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Usage(format!(
            "{path} is left as it is; --read-only measures without writing"
        ))),
    }
}
