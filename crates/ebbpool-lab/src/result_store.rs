//! Results kept between runs of a program.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use ebbpool_sim::Store;
use ebbpool_trace::Source;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// The code that makes results: its version and a digest of its sources. While a policy is being written the
/// version stays the same, and its results do not.
const CODE: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("EBBPOOL_SOURCES"));

/// A directory in which results are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultDirectory(PathBuf);

impl ResultDirectory {
    /// This directory; it is made when the first result is kept.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ResultDirectory(path.into())
    }

    /// The user's directory for caches; nothing where the system names none.
    pub fn of_user() -> Option<Self> {
        let places = ProjectDirs::from("", "", "ebbpool")?;
        Some(ResultDirectory(places.cache_dir().into()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The results over one trace; nothing where the trace cannot be recognised.
    pub fn of_trace(&self, source: &Source) -> Option<TraceResults> {
        let trace = source.content_key().ok()?;
        let trace: String = trace.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(TraceResults {
            directory: self.0.clone(),
            prefix: format!("{trace} {CODE} "),
        })
    }
}

/// Results over one trace, found by what the trace holds and not by its name. A key is the digest of the trace's
/// content, the code's identity, and all that the result depends on besides.
pub struct TraceResults {
    directory: PathBuf,
    prefix: String,
}

impl TraceResults {
    fn path(&self, key: &str) -> PathBuf {
        let hash = Sha256::digest(format!("{}{key}", self.prefix));
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let (folder, name) = hash.split_at(2);
        self.directory.join(folder).join(name)
    }

    /// Readers see the old value or the new one, never a part; after a power failure a part may be
    /// left, which is no JSON and is computed again.
    fn write(&self, key: &str, value: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let folder = path.parent().unwrap_or(&self.directory);
        fs::create_dir_all(folder)?;
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(value)?;
        file.persist(path)?;
        Ok(())
    }
}

impl Store for TraceResults {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.path(key)).ok()
    }

    fn put(&self, key: &str, value: &[u8]) {
        // A result that cannot be kept, on a full disk say, is computed again the next time.
        let _ = self.write(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of a trace and of code that are made up: both are part of the key.
    fn results(directory: &Path) -> TraceResults {
        let (trace, code) = ("00112233445566778899aabbccddeeff".repeat(2), "0".repeat(32));
        TraceResults {
            directory: directory.into(),
            prefix: format!("{trace} 0.1.0 {code} "),
        }
    }

    const KEY: &str = "facts warmup=100 cluster=16";
    const VALUE: &[u8] = br#"{"references":2000,"distinct_pages":40,"cluster_switches":1250}"#;
    const FILE: &str = "59/5c055aeac0ac931c180f3bfea8e36aa0e77a5bc8b537e307aae047c7187944";

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results")
    }

    /// `docs/formats.md` says how the directory is laid out. After a deliberate change: move the file in
    /// `tests/golden/results` to where the failed comparison says that a result lies today.
    #[test]
    fn a_kept_result_lies_where_it_lay_in_the_first_release() {
        assert_eq!(results(&golden()).get(KEY).as_deref(), Some(VALUE));
        assert_eq!(results(&golden()).get("facts warmup=101 cluster=16"), None);
        let directory = tempfile::tempdir().expect("a directory");
        let today = results(directory.path());
        today.put(KEY, VALUE);
        let file = today.path(KEY);
        let file = file.strip_prefix(directory.path()).expect("within it");
        assert_eq!(file, Path::new(FILE));
    }
}
