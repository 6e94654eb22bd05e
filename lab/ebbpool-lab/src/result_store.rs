//! Stores results between runs of a program.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use directories::ProjectDirs;
use ebbpool_sim::ResultStore;
use ebbpool_trace::Source;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// The digest of the sources of the crates that determine results. It is needed because results change during the
/// development of a policy, while versions do not. A build from a registry has no such sources beside it, and only the
/// versions distinguish its results.
const SOURCES: &str = env!("EBBPOOL_SOURCES");

/// The versions of the crates that determine results. A registry may combine different ones.
fn versions() -> String {
    let versions = [
        ebbpool_cost::VERSION,
        ebbpool_policy::VERSION,
        ebbpool_device::VERSION,
        ebbpool_trace::VERSION,
        ebbpool_sim::VERSION,
        env!("CARGO_PKG_VERSION"),
    ];
    versions.join(",")
}

/// Identifies the code that determines results: two builds with the same identity compute the same results.
pub fn build_identity() -> String {
    format!("{} {SOURCES}", versions())
}

/// A store for the results over all traces, by keys that contain the trace and the code.
pub trait SharedStore: Send + Sync {
    /// The value stored under `key`, which is hexadecimal and has 64 digits.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Stores `value` under `key`.
    fn put(&self, key: &str, value: &[u8]);
}

/// The place where results are stored.
#[derive(Clone)]
#[non_exhaustive]
pub enum ResultStorage {
    /// A directory.
    Directory(ResultDirectory),
    /// A store of the caller.
    Shared(Arc<dyn SharedStore>),
}

impl ResultStorage {
    /// The store for one trace; `None` if the trace has no identity, such as standard input.
    pub fn for_trace(&self, source: &Source) -> Option<TraceResults> {
        Some(self.of_key(&source.content_key().ok()?))
    }

    /// The store for the trace with this [content key](Source::content_key).
    pub(crate) fn of_key(&self, trace: &[u8; 32]) -> TraceResults {
        let trace: String = trace.iter().map(|byte| format!("{byte:02x}")).collect();
        TraceResults { storage: self.clone(), prefix: format!("{trace} {} ", build_identity()) }
    }
}

impl SharedStore for ResultStorage {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        match self {
            ResultStorage::Directory(directory) => {
                // A pipe in place of a result may have no writer, and reading it no end.
                let file = directory.file(key);
                let is_file = fs::metadata(&file).is_ok_and(|it| it.is_file());
                is_file.then(|| fs::read(file).ok())?
            }
            ResultStorage::Shared(store) => store.get(key),
        }
    }

    fn put(&self, key: &str, value: &[u8]) {
        match self {
            // If a result cannot be stored, for example on a full disk, the next run computes it again.
            ResultStorage::Directory(directory) => drop(directory.write(key, value)),
            ResultStorage::Shared(store) => store.put(key, value),
        }
    }
}

impl fmt::Debug for ResultStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResultStorage::Directory(directory) => directory.fmt(f),
            ResultStorage::Shared(_) => f.write_str("SharedStore"),
        }
    }
}

/// A directory that stores results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultDirectory(PathBuf);

impl ResultDirectory {
    /// A store in this directory, which is created with the first result.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ResultDirectory(path.into())
    }

    /// A store in the user's directory for caches; `None` if the system names none.
    pub fn in_user_cache() -> Option<Self> {
        let places = ProjectDirs::from("", "", "ebbpool")?;
        Some(ResultDirectory(places.cache_dir().into()))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The store for one trace; `None` if the trace has no identity, such as standard input.
    pub fn for_trace(&self, source: &Source) -> Option<TraceResults> {
        ResultStorage::Directory(self.clone()).for_trace(source)
    }
}

/// The results over one trace, which is identified by its content and not by its name. A key is the digest
/// of the trace's content, the code's identity, and all parameters of the result.
pub struct TraceResults {
    storage: ResultStorage,
    prefix: String,
}

impl TraceResults {
    fn hash(&self, key: &str) -> String {
        let hash = Sha256::digest(format!("{}{key}", self.prefix));
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl ResultDirectory {
    fn file(&self, hash: &str) -> PathBuf {
        let (folder, name) = hash.split_at_checked(2).unwrap_or(("", hash));
        self.0.join(folder).join(name)
    }

    /// Replaces a value atomically: readers see the old value or the new one. After a power failure a file may
    /// be incomplete; it is not valid JSON then, and the lab computes the result again.
    fn write(&self, hash: &str, value: &[u8]) -> io::Result<()> {
        let path = self.file(hash);
        let folder = path.parent().unwrap_or(&self.0);
        fs::create_dir_all(folder)?;
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(value)?;
        file.persist(path)?;
        Ok(())
    }
}

impl ResultStore for TraceResults {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.storage.get(&self.hash(key))
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.storage.put(&self.hash(key), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with an invented trace and code version; both are part of the key.
    fn results(directory: &Path) -> TraceResults {
        let (trace, code) = ("00112233445566778899aabbccddeeff".repeat(2), "0".repeat(32));
        TraceResults {
            storage: ResultStorage::Directory(ResultDirectory::new(directory)),
            prefix: format!("{trace} {} {code} ", ["0.1.0"; 6].join(",")),
        }
    }

    /// Where a build finds no sources of crates in a clone, stored results outlive each change of a policy.
    #[test]
    fn the_key_covers_the_sources() {
        // The digest of nothing.
        assert_ne!(SOURCES, "e3b0c44298fc1c149afbf4c8996fb924");
    }

    const KEY: &str = "facts warmup=100 cluster=16";
    const VALUE: &[u8] = br#"{"references":2000,"distinct_pages":40,"cluster_switches":1250}"#;
    const FILE: &str = "da/ea69ad9e959586ecfd39760ecc1b8a8faaf118d719049c21f810f75d9b275f";

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results")
    }

    /// `docs/formats.md` describes the layout of the directory. After a deliberate change, move the file in
    /// `tests/golden/results` to the path that the failed comparison shows.
    #[test]
    fn stored_results_have_the_paths_of_the_first_release() {
        assert_eq!(results(&golden()).get(KEY).as_deref(), Some(VALUE));
        assert_eq!(results(&golden()).get("facts warmup=101 cluster=16"), None);
        let directory = tempfile::tempdir().expect("a directory");
        let today = results(directory.path());
        today.put(KEY, VALUE);
        let file = ResultDirectory::new(directory.path()).file(&today.hash(KEY));
        let file = file.strip_prefix(directory.path()).expect("within it");
        assert_eq!(file, Path::new(FILE));
    }

    #[test]
    fn a_pipe_in_place_of_a_result_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let results = results(directory.path());
        let file = ResultDirectory::new(directory.path()).file(&results.hash(KEY));
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.expect("it runs").success());
        assert_eq!(results.get(KEY), None);
        results.put(KEY, VALUE);
        assert_eq!(results.get(KEY).as_deref(), Some(VALUE));
    }

    #[test]
    fn a_store_of_the_caller_has_the_keys_of_a_directory() {
        #[derive(Default)]
        struct InMemory(std::sync::Mutex<std::collections::HashMap<String, Vec<u8>>>);
        impl SharedStore for InMemory {
            fn get(&self, key: &str) -> Option<Vec<u8>> {
                self.0.lock().expect("no panic").get(key).cloned()
            }
            fn put(&self, key: &str, value: &[u8]) {
                let mut values = self.0.lock().expect("no panic");
                values.insert(key.into(), value.into());
            }
        }
        let store = Arc::new(InMemory::default());
        let shared = TraceResults { storage: ResultStorage::Shared(store.clone()), ..results(&golden()) };
        assert_eq!(shared.get(KEY), None);
        shared.put(KEY, VALUE);
        assert_eq!(shared.get(KEY).as_deref(), Some(VALUE));
        let keys: Vec<String> = store.0.lock().expect("no panic").keys().cloned().collect();
        assert_eq!(keys, [FILE.replace('/', "")]);
    }
}
