//! Output files that are either complete or absent.

mod step_by_step;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ebbpool_cost::one_line;
use step_by_step::{Found, Replacement};

use crate::error::TraceError;

const BUFFER: usize = 1 << 17;
/// Where Linux mounts a file system in memory; its files are regular files, although
/// they are below `/dev`.
#[cfg(test)]
const SHARED_MEMORY: &str = "/dev/shm";
/// The number of links that Linux follows.
const MOST_LINKS: usize = 40;

/// A file being written, buffered.
///
/// A target that is a regular file, or does not exist yet, is replaced
/// atomically: the data go to a temporary file in its directory, which
/// [`finish`](OutputFile::finish) synchronises and renames. Symbolic links are
/// followed, so that the file they lead to is replaced and the links remain. A link or a
/// file of another user in a directory like `/tmp`, where everybody may put them, is
/// refused. The new file has the permissions of the old one, and its owner if this process
/// may give files away. Dropping an unfinished file leaves the target unchanged, and so does
/// the end of the process, however it ends: on Linux the data are in a file without a name,
/// where the file system has such files.
///
/// Anything else (a pipe, a device, `/dev/stdout` even if it leads to a file) is
/// written in place; files in `/dev/shm` are regular files.
#[derive(Debug)]
pub struct OutputFile {
    label: String,
    bytes: u64,
    output: Output,
}

#[derive(Debug)]
enum Output {
    Replace(BufWriter<Replacement>),
    InPlace(BufWriter<File>),
}

impl OutputFile {
    /// Starts writing `path`; `-` is standard output.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] if the target may not be written, its directory does
    /// not exist, or it is a directory.
    pub fn create(path: impl AsRef<Path>) -> Result<OutputFile, TraceError> {
        OutputFile::open(path.as_ref(), false)
    }

    /// Starts writing `path` with what not every user may know: a new file is its owner's alone, and a file that belongs neither
    /// to this user, nor to root, nor to the [`caller`] is not replaced, as its owner could read it.
    ///
    /// # Errors
    ///
    /// As of [`create`](OutputFile::create).
    pub fn create_private(path: impl AsRef<Path>) -> Result<OutputFile, TraceError> {
        OutputFile::open(path.as_ref(), true)
    }

    fn open(path: &Path, is_private: bool) -> Result<OutputFile, TraceError> {
        let path = if path == Path::new("-") { Path::new("/dev/stdout") } else { path };
        let label = one_line(&path.to_string_lossy());
        let output = Output::open(path, is_private).map_err(|error| TraceError::io(&label, "write", error))?;
        Ok(OutputFile { label, bytes: 0, output })
    }

    /// The path as the caller gave it, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// True if the path will be a regular file once this is finished.
    pub fn is_regular(&self) -> bool {
        matches!(self.output, Output::Replace(_))
    }

    /// Gives the file to another user once it is finished, if it is a new regular file.
    pub fn give_to(&mut self, user: u32, group: Option<u32>) {
        if let Output::Replace(temporary) = &mut self.output {
            temporary.get_mut().give_to(user, group);
        }
    }

    /// Writes the buffered data, makes the file durable and moves it to its path; returns
    /// the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`]; a target that was to be replaced is then untouched.
    pub fn finish(self) -> Result<u64, TraceError> {
        let OutputFile { label, bytes, output } = self;
        output.finish().map_err(|error| TraceError::io(label, "write", error))?;
        Ok(bytes)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.output {
            Output::Replace(temporary) => temporary.write(bytes),
            Output::InPlace(file) => file.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Replace(temporary) => temporary.flush(),
            Output::InPlace(file) => file.flush(),
        }
    }
}

/// Refuses outputs that would replace an input of the same command, or each other. A file is the same under another
/// spelling of its path and through symbolic and hard links; pipes and devices are never refused.
///
/// # Errors
///
/// [`TraceError::OutputIsInput`] and [`TraceError::OutputsCollide`].
pub fn refuse_overwriting(inputs: &[PathBuf], outputs: &[PathBuf]) -> Result<(), TraceError> {
    let label = |path: &PathBuf| one_line(&path.to_string_lossy());
    for (at, output) in outputs.iter().enumerate() {
        if inputs.iter().any(|input| same_file(input, output)) {
            return Err(TraceError::OutputIsInput { file: label(output) });
        }
        if let Some(other) = outputs[..at].iter().find(|other| same_file(other, output)) {
            return Err(TraceError::OutputsCollide { first: label(other), second: label(output) });
        }
    }
    Ok(())
}

/// True if both paths lead to one regular file, which need not exist yet.
fn same_file(a: &Path, b: &Path) -> bool {
    match [a, b].map(step_by_step::find) {
        [Ok(Found::File(a)), Ok(Found::File(b))] => a.is_same(&b),
        _ => false,
    }
}

/// The user who has called this process by sudo, and the group.
pub fn caller() -> Option<(u32, Option<u32>)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    Some((number("SUDO_UID")?, number("SUDO_GID")))
}

impl Output {
    fn open(path: &Path, is_private: bool) -> io::Result<Output> {
        Ok(match step_by_step::find(path)? {
            Found::File(place) => Output::Replace(BufWriter::with_capacity(BUFFER, place.replace(is_private)?)),
            Found::Other(file) => Output::InPlace(BufWriter::with_capacity(BUFFER, file.open()?)),
            Found::Device => Output::InPlace(BufWriter::with_capacity(BUFFER, open_in_place(path)?)),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Output::Replace(temporary) => temporary.into_inner().map_err(io::IntoInnerError::into_error)?.finish(),
            Output::InPlace(mut file) => file.flush(),
        }
    }
}

fn open_in_place(path: &Path) -> io::Result<File> {
    {
        use std::os::fd::AsFd;
        // The process's own streams are duplicated, not opened again: a redirected
        // standard output that is opened again starts at offset 0 and overwrites the
        // data in it.
        let own = match path.to_str() {
            Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => Some(io::stdout().as_fd().try_clone_to_owned()?),
            Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => Some(io::stderr().as_fd().try_clone_to_owned()?),
            _ => None,
        };
        if let Some(own) = own {
            io::stdout().flush()?;
            return Ok(File::from(own));
        }
    }
    let regular = fs::metadata(path).is_ok_and(|found| found.is_file());
    OpenOptions::new().write(true).append(regular).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) -> Result<u64, TraceError> {
        let mut file = OutputFile::create(path)?;
        file.write_all(text.as_bytes()).unwrap();
        file.finish()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_appears_only_when_finished() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut file = OutputFile::create(&path).unwrap();
        assert!(file.is_regular());
        file.write_all(b"hello").unwrap();
        file.flush().unwrap();
        assert!(!path.exists());
        assert_eq!(file.finish().unwrap(), 5);
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn dropping_it_leaves_only_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn permissions_are_preserved_and_new_files_have_the_usual_ones() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let plain = directory.path().join("plain");
        File::create(&plain).unwrap();
        write(&path, "1").unwrap();
        assert_eq!(mode(&path), mode(&plain));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, "2").unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"2");
    }

    #[test]
    fn links_remain_links() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("deep")).unwrap();
        let real = directory.path().join("deep/real");
        let link = directory.path().join("link");
        let link2 = directory.path().join("link2");
        symlink("deep/real", &link).unwrap();
        symlink("link", &link2).unwrap();
        // Dangling at first.
        write(&link2, "one").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"one");
        write(&link2, "two").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::symlink_metadata(&link2).unwrap().is_symlink());
        assert_eq!(names(&directory.path().join("deep")), ["real"]);

        let around = directory.path().join("around");
        symlink("around", &around).unwrap();
        let message = write(&around, "x").unwrap_err().to_string();
        assert!(message.contains("too many symbolic links"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_written_in_place() {
        assert_eq!(write(Path::new("/dev/null"), "lost").unwrap(), 4);
        assert!(!OutputFile::create("/dev/stdout").unwrap().is_regular());
        assert!(!OutputFile::create("-").unwrap().is_regular());

        let message = write(Path::new("/dev/full"), "much").unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write: No space"), "{message}");

        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert_eq!(names(directory.path()), ["pipe"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_in_shared_memory_are_files() {
        // Some containers have none.
        let Ok(directory) = tempfile::tempdir_in(SHARED_MEMORY) else {
            return;
        };
        let path = directory.path().join("out");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(directory.path()), ["out"]);
        assert!(OutputFile::create(&path).unwrap().is_regular());
    }

    #[test]
    fn directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = write(directory.path(), "x").unwrap_err().to_string();
        assert!(error.contains("irectory"), "{error}");
        let error = write(&directory.path().join("no/where"), "x").unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
