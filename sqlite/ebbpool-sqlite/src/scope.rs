//! Which databases of a process the VFS takes where it is the default one: those that `EBBPOOL_SQLITE_FILES` names.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable with the databases that the VFS takes; without it all are.
pub const FILES_VARIABLE: &str = "EBBPOOL_SQLITE_FILES";

/// The databases that the VFS takes, as patterns: `home-assistant_v2.db:/var/lib/app/*.db`.
///
/// A pattern without a slash is compared with the file's name, another one with the absolute path of the file; where symbolic
/// links lead to it, both the name that the program opens and that of the file count. `*` stands for any text without a slash, `?` for one character, and `[...]` for one of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    patterns: Vec<CString>,
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.patterns.iter().map(|it| it.to_string_lossy());
        formatter.write_str(&patterns.collect::<Vec<_>>().join(":"))
    }
}

/// A list of patterns that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeError {
    text: String,
    why: &'static str,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScopeError { text, why } = self;
        write!(formatter, "{FILES_VARIABLE}={text}: {why}")
    }
}

impl std::error::Error for ScopeError {}

impl ScopeError {
    /// What is wrong, and what is expected.
    pub fn why(&self) -> &'static str {
        self.why
    }
}

impl Scope {
    /// Why a pattern that names a directory is a mistake.
    pub const OF_DIRECTORY: &str = "a directory is no database; for those in it end the pattern with /*.db";

    /// Reads a list of patterns with `:` between them.
    ///
    /// # Errors
    ///
    /// If a pattern is empty, has a `[` without its `]`, ends with a slash, or has one and is no absolute path: it would match
    /// nothing.
    pub fn parse(text: &str) -> Result<Scope, ScopeError> {
        let pattern = |pattern: &str| {
            let why = if pattern.is_empty() {
                "a pattern is empty; expected names such as home.db or /var/lib/*.db, with : between them"
            } else if !has_whole_sets(pattern.as_bytes()) {
                "a [ has no ]; expected a set such as [0-9]"
            } else if pattern.contains('/') && !pattern.starts_with('/') {
                "a pattern with a slash is compared with absolute paths, in which * matches no slash; begin it with /, or name the file alone"
            } else if pattern.ends_with('/') {
                Scope::OF_DIRECTORY
            } else {
                match CString::new(pattern) {
                    Ok(pattern) => return Ok(pattern),
                    Err(_) => "no file's name has a zero",
                }
            };
            Err(ScopeError { text: text.to_owned(), why })
        };
        let patterns = text.split(':').map(pattern).collect::<Result<_, _>>()?;
        Ok(Scope { patterns })
    }

    /// True if the VFS takes the database with this absolute path.
    pub fn takes(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.patterns.iter().any(|pattern| {
            let bytes = pattern.as_bytes();
            match bytes.contains(&b'/') {
                true => matches(pattern, path) || leads_to(pattern, path),
                false => matches(pattern, name),
            }
        })
    }
}

/// True if each set of a pattern has its end. As fnmatch(3) reads it: `]` is a member where it is the first, and a slash is
/// none.
fn has_whole_sets(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.iter().position(|byte| *byte == b'[') {
        let set = &rest[at + 1..];
        let first = usize::from(set.starts_with(b"!") || set.starts_with(b"^"));
        let ends = set.iter().enumerate().skip(first + 1);
        let mut ends = ends.filter(|(_, byte)| **byte == b']').map(|(at, _)| at);
        match ends.next() {
            Some(end) if !set[..end].contains(&b'/') => rest = &set[end + 1..],
            _ => return false,
        }
    }
    true
}

fn matches(pattern: &CString, text: &str) -> bool {
    let Ok(text) = CString::new(text) else {
        return false;
    };
    let flags = libc::FNM_PATHNAME | libc::FNM_NOESCAPE;
    // SAFETY: both texts end with a zero, and the function only reads them.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), flags) == 0 }
}

/// True if the pattern is the path of a symbolic link to the file, or has one in it: SQLite opens what it leads to.
fn leads_to(pattern: &CString, path: &str) -> bool {
    let target = pattern.to_str().ok().and_then(|it| Path::new(it).canonicalize().ok());
    target.is_some_and(|target| target == Path::new(path))
}

/// True once the VFS is the process's default: then it is asked for databases of programs that do not know it.
static IS_DEFAULT: AtomicBool = AtomicBool::new(false);

/// True if the VFS is the process's default.
pub(crate) fn is_default() -> bool {
    IS_DEFAULT.load(Ordering::Relaxed)
}

/// The VFS becomes the process's default, to which the environment's scope applies.
pub(crate) fn apply_to_default() {
    IS_DEFAULT.store(true, Ordering::Relaxed);
}

thread_local! {
    /// The name that SQLite has made an absolute path last in this thread, and that path: those of the database that it opens
    /// next.
    static LAST_NAME: RefCell<Option<(CString, CString)>> = const { RefCell::new(None) };
}

/// Notes the name that a program opens, and the path of the file, in which links are followed.
pub(crate) fn note_name(asked: &CStr, resolved: &CStr) {
    let names = (asked != resolved).then(|| (asked.to_owned(), resolved.to_owned()));
    // Where the thread ends already, only the path counts.
    let _ = LAST_NAME.try_with(|last| last.replace(names));
}

/// The absolute path by which the program opens the file with this path, its links not followed.
fn asked_path(path: &str) -> Option<String> {
    let last = LAST_NAME.try_with(|last| last.borrow().clone());
    let (asked, resolved) = last.ok()??;
    let is_it = resolved.as_bytes() == path.as_bytes();
    let asked = is_it.then(|| asked.into_string().ok())??;
    std::path::absolute(asked).ok()?.into_os_string().into_string().ok()
}

/// The environment's scope; `None` where it has none.
static SCOPE: OnceLock<Option<Result<Scope, ScopeError>>> = OnceLock::new();
/// True once the scope has had a database.
static HAS_TAKEN: AtomicBool = AtomicBool::new(false);
/// The first database that a process has opened for writing and that its scope does not have, and the process: a child of fork()
/// has not opened it.
static LEFT: OnceLock<(u32, String)> = OnceLock::new();

/// Notes a database that was opened for writing and is left to the VFS below.
pub(crate) fn note_left(path: &str) {
    LEFT.get_or_init(|| (std::process::id(), path.to_owned()));
}

/// Says at the end of a process, once, that its scope has had none of the databases that it wrote: a name may be misspelt.
pub(crate) fn say_what_was_left() {
    if let Some((process, path)) = LEFT.get()
        && *process == std::process::id()
        && let Some(Some(Ok(scope))) = SCOPE.get()
        && !HAS_TAKEN.swap(true, Ordering::Relaxed)
    {
        // Where standard error is closed, this goes nowhere.
        let _ = writeln!(
            std::io::stderr(),
            "ebbpool: process {process} has opened {path:?} and no database of {FILES_VARIABLE}={scope}; SQLite's own VFS served it"
        );
    }
}

/// True if the environment's scope has the database.
pub(crate) fn is_in_scope(path: &str) -> bool {
    let scope = SCOPE.get_or_init(|| {
        let text = std::env::var_os(FILES_VARIABLE)?;
        let scope = text
            .to_str()
            .map(Scope::parse)
            .unwrap_or_else(|| Err(ScopeError { text: text.to_string_lossy().into_owned(), why: "it is not UTF-8" }));
        if let Err(error) = &scope {
            // Where standard error is closed, this goes nowhere.
            let _ = writeln!(std::io::stderr(), "ebbpool: {error}; until then SQLite's own VFS serves every database");
        }
        Some(scope)
    });
    match scope {
        None => true,
        Some(Ok(scope)) => {
            let takes = scope.takes(path) || asked_path(path).is_some_and(|path| scope.takes(&path));
            HAS_TAKEN.fetch_or(takes, Ordering::Relaxed);
            takes
        }
        Some(Err(_)) => false,
    }
}

/// The most parameters that are read: what has more is no URI of a database.
const MOST_PARAMETERS: usize = 1000;

/// The parameters of a database's name, in order: SQLite puts them behind it, each as a name and a value that end with a
/// zero, and an empty name behind the last one (`sqlite3_create_filename` documents this).
///
/// # Safety
///
/// `name` is what `xOpen` was passed with `SQLITE_OPEN_MAIN_DB`, of which SQLite promises this layout.
pub(crate) unsafe fn parameters_of(name: *const c_char) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut at = name;
    let mut next = || {
        // SAFETY: `at` is the begin of a text of the layout, so that it ends with a zero, and something follows each but the
        // empty name, after which no further one is asked for.
        unsafe {
            let text = CStr::from_ptr(at);
            at = at.add(text.count_bytes() + 1);
            text.to_string_lossy().into_owned()
        }
    };
    next();
    while parameters.len() < MOST_PARAMETERS {
        let key = next();
        if key.is_empty() {
            break;
        }
        parameters.push((key, next()));
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_or_paths() {
        for (patterns, path, expected) in [
            ("home.db", "/config/home.db", true),
            ("home.db", "/config/my-home.db", false),
            ("a.db:home.db", "/config/home.db", true),
            ("*.db", "/config/.hidden.db", true),
            ("h?me.d[a-c]", "/config/home.db", true),
            ("h?me.d[!a-c]", "/config/home.db", false),
            ("/config/*.db", "/config/home.db", true),
            ("/config/*.db", "/config/deep/home.db", false),
            ("/config/*/home.db", "/config/deep/home.db", true),
            ("/home.db", "/config/home.db", false),
            ("a\\b.db", "/config/a\\b.db", true),
            ("größe?.db", "/config/größe1.db", true),
        ] {
            let scope = Scope::parse(patterns).unwrap();
            assert_eq!(scope.takes(path), expected, "{patterns} and {path}");
        }
    }

    #[test]
    fn a_path_with_a_symbolic_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real.db");
        std::fs::write(&real, "").unwrap();
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let scope = Scope::parse(link.to_str().unwrap()).unwrap();
        assert!(scope.takes(real.to_str().unwrap()));
        assert!(!scope.takes("/other/real.db"));
    }

    #[test]
    fn patterns_that_match_nothing_are_errors() {
        for (patterns, why) in [
            ("", "empty"),
            ("a.db:", "empty"),
            (":a.db", "empty"),
            ("a.db::b.db", "empty"),
            ("a[0-9.db", "a [ has no ]"),
            ("[]", "a [ has no ]"),
            ("[!]", "a [ has no ]"),
            ("/a/[b/c].db", "a [ has no ]"),
            ("data/a.db", "absolute"),
            ("*/a.db", "begin it with /"),
            ("**/a.db", "begin it with /"),
            ("a\0.db", "zero"),
            ("/var/lib/app/", "end the pattern with /*.db"),
        ] {
            let error = Scope::parse(patterns).unwrap_err().to_string();
            assert!(error.contains(why), "{patterns}: {error}");
        }
        for patterns in ["[]]", "[!]a]b", "[^]][0-9]", "a]"] {
            Scope::parse(patterns).unwrap();
        }
    }

    fn read(bytes: &'static [u8]) -> Vec<(String, String)> {
        // SAFETY: the bytes below have the layout.
        unsafe { parameters_of(bytes.as_ptr().cast()) }
    }

    #[test]
    fn parameters_are_read_up_to_the_empty_name() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(b"/a.db\0\0\0"), []);
        let bytes = b"/a.db\0window\0x\0mode\0\0vfs\0ebbpool\0\0after\0x\0\0";
        let found = [pair("window", "x"), pair("mode", ""), pair("vfs", "ebbpool")];
        assert_eq!(read(bytes), found);
        assert_eq!(read(b"/a.db\0\xff\0\xfe\0\0"), [pair("\u{fffd}", "\u{fffd}")]);
    }
}
