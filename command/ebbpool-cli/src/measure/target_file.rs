//! The file or device to measure: an existing one, for which the user may have to give permission, or a
//! temporary file.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ebbpool_cost::ByteSize;
use tempfile::TempPath;

use super::args::MeasureArgs;
use super::error::MeasureError;
use crate::failure::Failure;

const DEFAULT_SIZE: u64 = 1 << 30;

/// Bytes of a block in file metadata, whatever the device's block size is.
const STAT_BLOCK: u64 = 512;

/// The file or device to measure.
pub(super) struct TargetFile {
    pub(super) path: PathBuf,
    /// Set for a file that the command created; dropping it removes the file.
    temporary: Option<TempPath>,
    /// The number of bytes to measure; `None` for all.
    pub(super) size: Option<u64>,
    pub(super) notes: Vec<String>,
}

impl TargetFile {
    /// Finds or creates the file, and asks the user before data is lost.
    pub(super) fn find(args: &MeasureArgs) -> Result<Self, Failure> {
        let path = &args.path;
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(args),
            Ok(found) if found.is_dir() => create_in(args),
            Ok(found) => existing(args, &found),
            Err(source) => Err(failed(path, "inspect it", source)),
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
            "{}: there is no file to read; name one that exists, or omit --read-only",
            args.path.display()
        ))),
        false => Ok(()),
    }
}

fn temporary_target(args: &MeasureArgs, temporary: TempPath) -> TargetFile {
    TargetFile {
        path: temporary.to_path_buf(),
        temporary: Some(temporary),
        size: Some(args.size.map_or(DEFAULT_SIZE, |size| size.bytes())),
        notes: Vec::new(),
    }
}

fn create(args: &MeasureArgs) -> Result<TargetFile, Failure> {
    refuse_reading_nothing(args)?;
    let path = &args.path;
    let make = File::create_new(path).and_then(|_| {
        // The path is absolute, because the process may change its directory before it removes the file.
        TempPath::try_from_path(std::path::absolute(path)?)
    });
    let temporary = make.map_err(|source| failed(path, "create it", source))?;
    Ok(temporary_target(args, temporary))
}

fn create_in(args: &MeasureArgs) -> Result<TargetFile, Failure> {
    refuse_reading_nothing(args)?;
    let file = tempfile::Builder::new()
        .prefix(".ebbpool-measure-")
        .tempfile_in(&args.path)
        .map_err(|source| failed(&args.path, "create a file in it", source))?;
    Ok(temporary_target(args, file.into_temp_path()))
}

fn existing(args: &MeasureArgs, found: &Metadata) -> Result<TargetFile, Failure> {
    let path = &args.path;
    let is_device = found.file_type().is_block_device();
    if !args.read_only && (is_device || found.is_file()) {
        let what = match is_device {
            true => "is a block device".to_string(),
            false => format!("exists, with {}", ByteSize::new(found.len())),
        };
        permit(path, &what, args.yes)?;
    }
    let mut notes = Vec::new();
    if found.is_file() && found.blocks().saturating_mul(STAT_BLOCK) < found.len() / 10 * 9 {
        notes.push(format!("{} has holes, and reading a hole does not access the device", path.display()));
    }
    Ok(TargetFile { path: path.clone(), temporary: None, size: args.size.map(|size| size.bytes()), notes })
}

/// Asks the user whether the contents may be lost.
fn permit(path: &Path, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let path = path.display();
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{path} {what}, and measuring writes destroys its contents; give --yes if they may be lost, or --read-only"
        )));
    }
    let mut errors = io::stderr();
    write!(errors, "{path} {what}. Measuring writes destroys its contents. Go on? [y/N] ")?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Usage(format!("{path} is unchanged; --read-only measures without writing"))),
    }
}
