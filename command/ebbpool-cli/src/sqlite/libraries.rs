//! The shared libraries that this program carries inside, and the files that they become: those that a loader may load.
//!
//! Code that the loader takes from a file must be this user's or root's. So a file is used only in a directory of this user
//! into which no other one can write, nor into any above it, and only if it has the very bytes that are inside this program.

use std::env;
use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebbpool_embed::embedded_library;
use ebbpool_sqlite::preload::{LIBRARY, can_be_loaded};
use ebbpool_trace::output::OutputFile;
use rustix::fs::{Mode, OFlags};
use xxhash_rust::xxh3::xxh3_128;

use super::args::SqliteLibrariesArgs;
use super::error::SqliteError;

/// A library inside this program.
#[derive(Clone, Copy)]
pub(super) struct CarriedLibrary {
    /// The name of its file, with the ending `.so`.
    name: &'static str,
    bytes: &'static [u8],
    /// Whether its path goes into LD_PRELOAD, which not every path can.
    is_preloaded: bool,
}

/// The library that `ebbpool sqlite run` preloads; `None` if this program was built without shared libraries.
pub(super) fn preloaded() -> Option<CarriedLibrary> {
    Some(CarriedLibrary { name: LIBRARY, bytes: embedded_library!(ebbpool_sqlite_preload)?, is_preloaded: true })
}

/// The extension that SQLite loads.
fn extension() -> Option<CarriedLibrary> {
    Some(CarriedLibrary { name: "libebbpool_sqlite.so", bytes: embedded_library!(ebbpool_sqlite)?, is_preloaded: false })
}

/// The path of a file with the extension that SQLite loads, and that this program carries.
pub(crate) fn extension_file() -> Result<PathBuf, SqliteError> {
    extension().ok_or(SqliteError::NotCarried)?.file()
}

/// `ebbpool sqlite libraries`: writes the libraries, and prints where they are.
pub(super) fn libraries(args: &SqliteLibrariesArgs) -> Result<(), SqliteError> {
    for library in [preloaded(), extension()] {
        let library = library.ok_or(SqliteError::NotCarried)?;
        let path = match &args.directory {
            Some(directory) => library.copied_into(directory)?,
            None => library.file()?,
        };
        let mut out = io::stdout().lock();
        let line = [path.as_os_str().as_bytes(), b"\n"].concat();
        out.write_all(&line).map_err(SqliteError::Output)?;
    }
    Ok(())
}

/// Why a directory was not used.
#[derive(Debug)]
enum Unusable {
    Io(io::Error),
    /// Another user may change what is in this directory.
    Others(PathBuf, &'static str),
    /// The file system is mounted `noexec`, or the system forbids to load from it in another way.
    NotLoadable(io::Error),
    /// LD_PRELOAD cannot have this path.
    Separators,
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Io(error) => write!(formatter, "{error}"),
            Unusable::Others(path, why) => write!(formatter, "{} {why}", path.display()),
            Unusable::NotLoadable(error) => {
                write!(formatter, "no code may be loaded from there, as with the mount option noexec ({error})")
            }
            Unusable::Separators => formatter.write_str("its path has a character that LD_PRELOAD cannot have"),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Unusable::Io(error)
    }
}

impl CarriedLibrary {
    /// The path of a file with this library that may be loaded: an installed one that is the same, else one in a directory
    /// of the user, which is written where it is not there yet. Its name has a hash of its content, so that programs that
    /// were started by another version do not lose theirs.
    pub(super) fn file(self) -> Result<PathBuf, SqliteError> {
        let is_it = |path: &PathBuf| has(path, self.bytes).unwrap_or(false) && !(self.is_preloaded && has_separator(path));
        let mut installed = installed(self.name).into_iter();
        if let Some(path) = installed.find(is_it) {
            return Ok(path);
        }
        self.file_below(&places())
    }

    /// The path of a file with this library in the first usable one of some directories.
    fn file_below(self, places: &[PrivateDirectory]) -> Result<PathBuf, SqliteError> {
        let mut refused = Vec::new();
        for place in places {
            match self.file_in(place) {
                Ok(path) => return Ok(path),
                Err(error) => refused.push(format!("{}: {error}", place.path().display())),
            }
        }
        Err(SqliteError::NoPlace {
            name: self.name,
            refused: match refused.is_empty() {
                true => "no HOME, XDG_CACHE_HOME or XDG_RUNTIME_DIR names one".into(),
                false => refused.join("; "),
            },
        })
    }

    fn file_in(self, place: &PrivateDirectory) -> Result<PathBuf, Unusable> {
        let directory = place.create()?;
        remove_unfinished(&directory);
        let stem = self.name.strip_suffix(".so").unwrap_or(self.name);
        let path = directory.join(format!("{stem}-{:032x}.so", xxh3_128(self.bytes)));
        if self.is_preloaded && has_separator(&path) {
            return Err(Unusable::Separators);
        }
        if !is_safe(&path) || !has(&path, self.bytes).unwrap_or(false) {
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&directory)?;
            file.write_all(&self.bytes[..self.bytes.len().min(1)])?;
            can_be_loaded(file.as_file()).map_err(Unusable::NotLoadable)?;
            file.write_all(&self.bytes[self.bytes.len().min(1)..])?;
            let rights = Permissions::from_mode(place.mode & 0o644);
            file.as_file().set_permissions(rights)?;
            // A power cut is not to leave a file of this name with other content.
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
        }
        can_be_loaded(&File::open(&path)?).map_err(Unusable::NotLoadable)?;
        Ok(path)
    }

    /// Writes the library under its own name into a directory that the user names.
    fn copied_into(self, directory: &Path) -> Result<PathBuf, SqliteError> {
        let path = directory.join(self.name);
        let mut file = OutputFile::create(&path)?;
        file.write_all(self.bytes).map_err(SqliteError::doing("write it", &path))?;
        file.finish()?;
        // A service of another user is to load it, whatever the rights of files that this user makes.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, Mode::empty())
            .and_then(|file| rustix::fs::fchmod(file, Mode::from_raw_mode(0o644)))
            .map_err(|error| SqliteError::doing("let others read it", &path)(error.into()))?;
        path.canonicalize().map_err(SqliteError::doing("find it", &path))
    }
}

/// How the names of files begin that are not whole yet.
const UNFINISHED: &str = ".new-";

/// Removes what killed processes have left behind: unfinished files that are older than an hour. The files of other versions
/// stay, since programs that those have started may start others.
fn remove_unfinished(directory: &Path) {
    const HOUR: Duration = Duration::from_secs(3600);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let is_unfinished = entry.file_name().as_bytes().starts_with(UNFINISHED.as_bytes());
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_unfinished && age().is_some_and(|age| age > HOUR) {
            // Another process may remove it at the same time.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The files of a library's name that are installed with this program, beside it or in `../lib`, where no other user can
/// replace them, and from where code may be loaded.
pub(super) fn installed(name: &str) -> Vec<PathBuf> {
    let program = env::current_exe().ok();
    let directory = program.as_deref().and_then(Path::parent);
    let places = directory.map(|directory| [directory.join(name), directory.join("../lib").join(name)]);
    let found = places.into_iter().flatten();
    let absolute = |path: PathBuf| path.canonicalize().ok();
    let is_usable = |path: &PathBuf| {
        is_safe(path)
            && path.parent().is_some_and(|it| trusted(it).is_ok())
            && File::open(path).is_ok_and(|file| can_be_loaded(&file).is_ok())
    };
    found.filter_map(absolute).filter(is_usable).collect()
}

/// True if LD_PRELOAD cannot have a path.
pub(super) fn has_separator(path: &Path) -> bool {
    let separates = |byte: &u8| matches!(byte, b' ' | b':' | b'$' | b'\t' | b'\n');
    path.as_os_str().as_bytes().iter().any(separates)
}

/// A directory of the user that may have to be made: the last of `names`, each in the one before, below a directory that is
/// there.
struct PrivateDirectory {
    base: PathBuf,
    names: Vec<String>,
    /// The rights of the directories that are made.
    mode: u32,
}

/// For the user alone.
const PRIVATE: u32 = 0o700;
/// Others may load what root has written, since root's programs go on as other users.
const READABLE: u32 = 0o755;

/// The directories in which the files may be, best first. None is one that the system empties at its start, when another user
/// could make it anew: programs have its path in their environment for as long as they run.
fn places() -> Vec<PrivateDirectory> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    // Not the directory of stored results, which the user may delete at any time.
    let own = || "ebbpool-sqlite".to_owned();
    let last = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    // A directory for caches is made where there is none, but not the home.
    let of_caches = |caches: PathBuf| {
        let (base, name) = (caches.parent()?, last(&caches)?);
        Some(PrivateDirectory { base: base.into(), names: vec![name, own()], mode: PRIVATE })
    };
    let in_directory = |base: PathBuf, mode: u32| PrivateDirectory { base, names: vec![own()], mode };
    let mut places = Vec::new();
    places.extend(variable("XDG_CACHE_HOME").and_then(of_caches));
    if rustix::process::geteuid().is_root() {
        places.push(in_directory("/var/cache".into(), READABLE));
    }
    let home = variable("HOME").map(|home| home.join(".cache"));
    places.extend(home.and_then(of_caches));
    // The session's end removes it, and no other user can make it anew.
    places.extend(variable("XDG_RUNTIME_DIR").map(|base| in_directory(base, PRIVATE)));
    places
}

impl PrivateDirectory {
    fn path(&self) -> PathBuf {
        self.names.iter().fold(self.base.clone(), |path, name| path.join(name))
    }

    /// The directory, which is this user's alone; it is made if it is not there.
    fn create(&self) -> Result<PathBuf, Unusable> {
        let mut path = self.base.clone();
        for name in &self.names {
            // Nothing is made in a directory of another user, to which a link may lead.
            path = path.canonicalize()?;
            trusted(&path)?;
            path.push(name);
            match DirBuilder::new().mode(self.mode).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                // Whatever this process takes from the rights of what it makes.
                Ok(()) => fs::set_permissions(&path, Permissions::from_mode(self.mode))?,
                Err(_) => {}
            }
        }
        // The last one is no link to a directory for something else.
        let metadata = fs::symlink_metadata(&path)?;
        if !metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(Unusable::Others(path, "belongs to another user"));
        }
        let path = path.canonicalize()?;
        trusted(&path)?;
        match fs::metadata(&path)?.mode() & 0o022 {
            0 => Ok(path),
            _ => Err(Unusable::Others(path, OTHERS)),
        }
    }
}

const OTHERS: &str = "can be written by other users";

/// Refuses a directory in which another user could replace what this user has: it, or one above it, is another user's, or
/// others may write it and remove what is not theirs.
fn trusted(directory: &Path) -> Result<(), Unusable> {
    const STICKY: u32 = 0o1000;
    let user = rustix::process::geteuid().as_raw();
    for ancestor in directory.ancestors() {
        let metadata = fs::symlink_metadata(ancestor)?;
        if ![0, user].contains(&metadata.uid()) {
            return Err(Unusable::Others(ancestor.into(), "belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0 {
            return Err(Unusable::Others(ancestor.into(), OTHERS));
        }
    }
    Ok(())
}

/// True if a file is this user's or root's, and no other one can write it.
fn is_safe(path: &Path) -> bool {
    let owners = [0, rustix::process::geteuid().as_raw()];
    let metadata = fs::symlink_metadata(path);
    metadata.is_ok_and(|it| it.is_file() && owners.contains(&it.uid()) && it.mode() & 0o022 == 0)
}

/// True if only this user can load a library, since it is in a directory of the user alone.
pub(super) fn is_private(library: &Path) -> bool {
    let mut above = library.ancestors().skip(1);
    above.any(|it| fs::metadata(it).is_ok_and(|it| it.mode() & 0o001 == 0))
}

/// True if a library is in one of the directories in which the carried ones are written where none is installed.
pub(super) fn is_cached(library: &Path) -> bool {
    let is_it = |place: PrivateDirectory| {
        let directory = place.path().canonicalize();
        directory.is_ok_and(|directory| library.parent() == Some(&directory))
    };
    places().into_iter().any(is_it)
}

/// True if a file has exactly these bytes.
fn has(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut buffer = vec![0; 1 << 16];
    let mut rest = bytes;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(rest.is_empty()),
            count => match rest.strip_prefix(&buffer[..count]) {
                Some(after) => rest = after,
                None => return Ok(false),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    const SOME: CarriedLibrary = CarriedLibrary { name: "libsome.so", bytes: b"the bytes of a library", is_preloaded: true };

    fn below(base: &Path) -> PrivateDirectory {
        PrivateDirectory { base: base.into(), names: vec!["ebbpool".into(), "sqlite".into()], mode: PRIVATE }
    }

    fn private() -> TempDir {
        let directory = TempDir::new().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).expect("rights");
        directory
    }

    fn rights(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("rights");
    }

    fn refusal(place: &PrivateDirectory) -> String {
        SOME.file_in(place).expect_err("a refusal").to_string()
    }

    #[test]
    fn the_program_of_the_tests_carries_both_libraries() {
        for library in [preloaded(), extension()] {
            let library = library.expect("a library");
            assert!(library.bytes.starts_with(b"\x7fELF"), "{}", library.name);
            assert!(library.bytes.len() > 1 << 20, "{}", library.name);
        }
    }

    #[test]
    fn a_file_is_written_once_and_is_the_users_alone() {
        let home = private();
        let place = below(home.path());
        let path = SOME.file_in(&place).expect("a file");
        assert_eq!(fs::read(&path).expect("bytes"), SOME.bytes);
        let directory = path.parent().expect("a directory");
        let mode = fs::metadata(directory).expect("rights").mode();
        assert_eq!(mode & 0o777, 0o700);
        let first = fs::metadata(&path).expect("a file").ino();
        assert_eq!(SOME.file_in(&place).expect("a file"), path);
        assert_eq!(fs::metadata(&path).expect("a file").ino(), first);
        // Another version has a file of its own.
        let other = CarriedLibrary { bytes: b"others", ..SOME };
        assert_ne!(other.file_in(&place).expect("a file"), path);
        assert_eq!(fs::read(&path).expect("bytes"), SOME.bytes);
    }

    #[test]
    fn a_file_with_other_bytes_owner_or_rights_is_replaced() {
        let home = private();
        let place = below(home.path());
        let path = SOME.file_in(&place).expect("a file");
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, SOME.bytes).expect("a file");
        let damage: [&dyn Fn(); 5] = [
            &|| fs::write(&path, b"THE bytes of a library").expect("a file"),
            &|| fs::write(&path, b"the bytes").expect("a file"),
            &|| fs::write(&path, b"the bytes of a library and more").expect("a file"),
            &|| rights(&path, 0o666),
            &|| {
                fs::remove_file(&path).expect("a file");
                symlink(&elsewhere, &path).expect("a link");
            },
        ];
        for damage in damage {
            damage();
            assert_eq!(SOME.file_in(&place).expect("a file"), path);
            assert!(is_safe(&path));
            assert_eq!(fs::read(&path).expect("bytes"), SOME.bytes);
        }
        // What the link led to stays as it was; and nothing else is left behind.
        assert_eq!(fs::read(&elsewhere).expect("bytes"), SOME.bytes);
        let directory = path.parent().expect("a directory");
        assert_eq!(fs::read_dir(directory).expect("a directory").count(), 1);
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_trusted() {
        let home = private();
        let place = below(home.path());
        let path = SOME.file_in(&place).expect("a file");
        let own = path.parent().expect("a directory");
        for directory in [own, own.parent().expect("a directory"), home.path()] {
            let before = fs::metadata(directory).expect("rights").mode();
            rights(directory, 0o777);
            assert!(refusal(&place).ends_with(OTHERS), "{}", refusal(&place));
            rights(directory, before);
        }
        // Where others cannot remove what is not theirs, a directory of this user is safe, but not if it is theirs to write.
        rights(home.path(), 0o1777);
        assert_eq!(SOME.file_in(&place).expect("a file"), path);
        rights(own, 0o1777);
        assert!(refusal(&place).ends_with(OTHERS), "{}", refusal(&place));
        // A link that waits under the name.
        fs::remove_dir_all(own).expect("a directory");
        let target = home.path().join("target");
        DirBuilder::new().mode(0o700).create(&target).expect("a directory");
        symlink(&target, own).expect("a link");
        assert!(refusal(&place).contains("not a directory"), "{}", refusal(&place));
        assert_eq!(fs::read_dir(&target).expect("a directory").count(), 0);
    }

    #[test]
    fn a_directory_of_another_user_is_not_trusted() {
        let home = private();
        let place = below(home.path());
        let path = SOME.file_in(&place).expect("a file");
        let own = path.parent().expect("a directory");
        if chown(own, Some(65534), None).is_err() {
            let _ = writeln!(io::stderr(), "skipped: a directory of another user needs root");
            return;
        }
        assert!(refusal(&place).ends_with("belongs to another user"), "{}", refusal(&place));
        chown(own, Some(0), None).expect("root");
        chown(home.path(), Some(65534), None).expect("root");
        assert!(refusal(&place).ends_with("belongs to another user"), "{}", refusal(&place));
        chown(home.path(), Some(0), None).expect("root");
        chown(&path, Some(65534), None).expect("root");
        assert_eq!(SOME.file_in(&place).expect("a file"), path);
        assert!(is_safe(&path));
    }

    #[test]
    fn the_next_directory_is_tried_and_the_error_names_all() {
        let home = private();
        let spaces = home.path().join("with spaces");
        fs::create_dir(&spaces).expect("a directory");
        let gone = home.path().join("gone");
        let file = home.path().join("file");
        fs::write(&file, "").expect("a file");
        let bad = || vec![below(&gone), below(&spaces), below(&file), below(Path::new("/proc"))];
        let mut places = bad();
        places.push(below(home.path()));
        let path = SOME.file_below(&places).expect("a file");
        assert!(path.starts_with(home.path().canonicalize().expect("a directory").join("ebbpool")));
        // No home is made where there is none.
        assert!(!gone.exists());
        let error = SOME.file_below(&bad()).expect_err("no place").to_string();
        for part in ["gone/ebbpool", "LD_PRELOAD cannot have", "/proc/ebbpool", "--library", "ebbpool sqlite libraries"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn several_at_once_agree_on_one_whole_file() {
        let home = private();
        let bytes: &'static [u8] = vec![7; 1 << 20].leak();
        let library = CarriedLibrary { bytes, ..SOME };
        let paths: Vec<PathBuf> = thread::scope(|scope| {
            let start = || {
                let path = library.file_in(&below(home.path())).expect("a file");
                assert!(has(&path, bytes).expect("a file"));
                path
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        assert!(paths.iter().all(|path| *path == paths[0]));
        let directory = paths[0].parent().expect("a directory");
        assert_eq!(fs::read_dir(directory).expect("a directory").count(), 1);
    }
}
