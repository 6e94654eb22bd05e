//! The options of a database: parameters of its URI, or of the environment.

use std::fmt;

use ebbpool_cost::nearest;
use serde::{Deserialize, Serialize};

/// Which log epochs go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// `-ebb`: what changed in each page. Without this library the files are a whole, older database.
    #[default]
    Deltas,
    /// An ordinary `-wal`, which every SQLite takes in.
    Wal,
}

/// The options of a database that is opened through the VFS.
///
/// They are parameters of the database's URI, `file:x.db?vfs=ebbpool&window=5&memory=8M`, or stand in the environment
/// variable `EBBPOOL_SQLITE` in the same form: `window=5&memory=8M`. Those of the URI come first.
///
/// ```
/// let options = ebbpool_sqlite::Options::default().set_from_text("window=5&memory=8M")?;
/// assert_eq!((options.window, options.memory), (5.0, 8 << 20));
/// # Ok::<(), ebbpool_sqlite::OptionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Seconds: a power cut or a killed process loses at most the commits of this time. With 0 every commit is durable when
    /// it returns.
    pub window: f64,
    /// Where epochs go.
    pub log: LogKind,
    /// Bytes: half of them for pages as of the last epoch, half for what was written since; of little memory more for
    /// what was written.
    pub memory: u64,
    /// Bytes of the log after which a checkpoint brings it in place.
    pub log_limit: u64,
    /// Seconds after which a checkpoint brings the log in place, however short it is.
    pub checkpoint_age: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { window: 5.0, log: LogKind::Deltas, memory: 32 << 20, log_limit: 16 << 20, checkpoint_age: 3600.0 }
    }
}

/// An option whose value makes no sense, or a name that is no option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    name: String,
    value: String,
    what: String,
}

impl OptionError {
    fn expected(name: &str, value: &str, expected: &str) -> OptionError {
        OptionError { name: name.to_owned(), value: value.to_owned(), what: format!("expected {expected}") }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionError { name, value, what } = self;
        write!(formatter, "ebbpool: {name}={value}: {what}")
    }
}

impl std::error::Error for OptionError {}

/// The least memory in bytes that makes sense.
const LEAST_MEMORY: u64 = 1 << 20;
/// The most memory in bytes.
const MOST_MEMORY: u64 = 16 << 30;
/// Bytes that SQLite's own WAL of 1000 pages, and the pages since the last epoch, take in most programs.
const USUAL_WRITES: u64 = 16 << 20;

impl Options {
    /// Bytes of the memory for what was written since the last epoch. Where they do not suffice, it goes to a temporary
    /// file, which is written to the card too.
    pub(crate) fn memory_of_writes(&self) -> u64 {
        let most = self.memory - self.memory / 8;
        (self.memory / 2).max(most.min(USUAL_WRITES))
    }

    /// The names of all options.
    pub const NAMES: [&'static str; 5] = ["window", "log", "memory", "log_limit", "checkpoint_age"];

    /// Sets the options that `value_of` has a value for.
    ///
    /// # Errors
    ///
    /// If a value makes no sense.
    pub fn set(mut self, value_of: impl Fn(&str) -> Option<String>) -> Result<Options, OptionError> {
        for name in Options::NAMES {
            if let Some(value) = value_of(name) {
                self.set_one(name, &value)?;
            }
        }
        Ok(self)
    }

    fn set_one(&mut self, name: &'static str, value: &str) -> Result<(), OptionError> {
        let error = |expected| OptionError::expected(name, value, expected);
        let seconds = || parse_seconds(value).ok_or(error("seconds, such as 30 or 0.5"));
        let bytes = || parse_bytes(value).ok_or(error("bytes, such as 8M or 1048576"));
        match name {
            "window" => self.window = seconds()?,
            "checkpoint_age" => self.checkpoint_age = seconds()?,
            "memory" => {
                self.memory = bytes()?;
                if self.memory < LEAST_MEMORY {
                    return Err(error("at least 1M"));
                }
                if self.memory > most_memory() {
                    return Err(error("at most 16G, and no more than the machine has"));
                }
            }
            "log_limit" => self.log_limit = bytes()?,
            _ => {
                self.log = match value {
                    "deltas" => LogKind::Deltas,
                    "wal" => LogKind::Wal,
                    _ => return Err(error("deltas or wal")),
                }
            }
        }
        Ok(())
    }

    /// The options of the environment variable `EBBPOOL_SQLITE`.
    ///
    /// # Errors
    ///
    /// If a value makes no sense, a name is unknown, or the variable is not UTF-8.
    pub(crate) fn of_environment() -> Result<Options, OptionError> {
        let text = std::env::var_os("EBBPOOL_SQLITE").unwrap_or_default();
        match text.to_str() {
            Some(text) => Options::default().set_from_text(text),
            None => {
                let text = text.to_string_lossy();
                Err(OptionError::expected("EBBPOOL_SQLITE", &text, "UTF-8"))
            }
        }
    }

    /// Sets options from text such as `window=5&memory=8M`.
    ///
    /// # Errors
    ///
    /// If a value makes no sense, or a name is unknown.
    pub fn set_from_text(self, text: &str) -> Result<Options, OptionError> {
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name, value)) if Options::NAMES.contains(&name) => pairs.push((name, value)),
                _ => {
                    let expected = "NAME=VALUE of window, log, memory, log_limit, checkpoint_age";
                    return Err(OptionError::expected("EBBPOOL_SQLITE", part, expected));
                }
            }
        }
        self.set(|name| {
            let found = pairs.iter().rev().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }
}

/// The most bytes that a database may take: those of the machine, up to a limit.
#[allow(unsafe_code)]
fn most_memory() -> u64 {
    // SAFETY: the function only reads numbers of the system.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(bytes)) {
        (Ok(pages), Ok(bytes)) => MOST_MEMORY.min(pages * bytes),
        _ => MOST_MEMORY,
    }
}

/// The parameters of a URI that SQLite itself reads.
const OF_SQLITE: [&str; 8] = ["vfs", "mode", "cache", "psow", "nolock", "immutable", "modeof", "8_3_names"];

/// The parameters of SQLite's builds that encrypt: SEE, SQLCipher and SQLite3 Multiple Ciphers.
const OF_ENCRYPTION: [&str; 29] = [
    "key", "hexkey", "textkey", "keysalt", "cipher", "algorithm", "salt", "legacy", "legacy_page_size", "page_size",
    "plaintext_header_size", "skip", "kdf_iter", "fast_kdf_iter", "kdf_algorithm", "hmac_check", "hmac_algorithm",
    "hmac_algorithm_compat", "hmac_use", "hmac_pgno", "hmac_salt_mask", "mc_legacy_wal", "mc_use_random_key", "tcost", "mcost",
    "pcost", "plainhdrsize", "readonly", "reserve",
];

/// Refuses parameters of a URI that are a mistake, which SQLite would not mention: `windwo=0` is not the window that was
/// meant. Where the URI names the VFS, each must be an option, or one that SQLite or an encryption reads. Where it does not,
/// the VFS is the process's default and the URI was written for another reader: only misspelled options are refused.
/// Names that begin with `_` are those of libraries around SQLite, as Go's drivers have them.
///
/// # Errors
///
/// The first such parameter, and the option that is nearest.
pub(crate) fn check_parameters(parameters: &[(String, String)], names_the_vfs: bool) -> Result<(), OptionError> {
    let is_known = |name: &str| {
        name.starts_with('_') || Options::NAMES.contains(&name) || OF_SQLITE.contains(&name) || OF_ENCRYPTION.contains(&name)
    };
    for (name, value) in parameters.iter().filter(|(name, _)| !is_known(name)) {
        let option = nearest(name, Options::NAMES);
        let what = match option {
            Some(option) => {
                format!("there is no such parameter of a database's name; did you mean {option}?")
            }
            None if names_the_vfs => {
                format!("there is no such parameter of a database's name; the options are {}", Options::NAMES.join(", "))
            }
            None => continue,
        };
        return Err(OptionError { name: name.clone(), value: value.clone(), what });
    }
    Ok(())
}

/// A number of seconds from 0 to a hundred years.
pub(crate) fn parse_seconds(text: &str) -> Option<f64> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=3.2e9).contains(&seconds).then_some(seconds)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.trim_end_matches(['b', 'B', 'i']) {
        text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 10),
        text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 20),
        text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 30),
        text => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << unit).filter(|bytes| *bytes < 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_text() {
        let options = Options::default().set_from_text("window=0.5&memory=8MiB&log=wal&log_limit=100k").unwrap();
        assert_eq!(options.window, 0.5);
        assert_eq!(options.memory, 8 << 20);
        assert_eq!(options.log, LogKind::Wal);
        assert_eq!(options.log_limit, 100 << 10);
        assert_eq!(options.checkpoint_age, 3600.0);
        assert_eq!(Options::default().set_from_text("").unwrap(), Options::default());
    }

    fn checked(uri: &str, names_the_vfs: bool) -> Result<(), OptionError> {
        let pairs = uri.split('&').map(|pair| pair.split_once('=').unwrap());
        let pairs: Vec<_> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        check_parameters(&pairs, names_the_vfs)
    }

    #[test]
    fn a_misspelled_parameter_is_refused_with_the_option_that_was_meant() {
        for (uri, meant) in [
            ("windwo=0", "window"),
            ("mode=rw&memroy=8M", "memory"),
            ("Window=3", "window"),
            ("log-limit=1M", "log_limit"),
            ("checkpointage=5", "checkpoint_age"),
        ] {
            for names_the_vfs in [false, true] {
                let error = checked(uri, names_the_vfs).unwrap_err().to_string();
                assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
            }
        }
    }

    #[test]
    fn a_parameter_of_another_reader_is_refused_only_where_the_uri_names_the_vfs() {
        checked("colour=red", false).unwrap();
        let error = checked("colour=red", true).unwrap_err().to_string();
        assert!(error.starts_with("ebbpool: colour=red: "), "{error}");
        assert!(error.contains("window, log, memory"), "{error}");
        let known = "vfs=ebbpool&mode=rwc&cache=shared&psow=1&nolock=1&immutable=0&modeof=x&window=3&log=wal\
                     &key=a&hexkey=b&textkey=c&cipher=chacha20&kdf_iter=64000&_busy_timeout=5000";
        checked(known, true).unwrap();
        checked(known, false).unwrap();
    }

    #[test]
    fn little_memory_is_for_what_was_written() {
        let writes = |memory| {
            let options = Options::default().set_from_text(&format!("memory={memory}")).unwrap();
            options.memory_of_writes()
        };
        assert_eq!(writes("1M"), 896 << 10);
        assert_eq!(writes("8M"), 7 << 20);
        assert_eq!(writes("32M"), 16 << 20);
        assert_eq!(writes("64M"), 32 << 20);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error() {
        for text in [
            "window=-1", "window=NaN", "window=x", "memory=1", "memory=9999999999G", "memory=64G", "log=x", "windows=3",
            "window",
        ] {
            let error = Options::default().set_from_text(text).unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        }
    }
}
