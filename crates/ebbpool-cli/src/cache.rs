//! Results of `compare` kept between runs.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use directories::ProjectDirs;
use ebbpool_sim::Store;
use ebbpool_trace::Source;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// The folder's environment variable, where the usual place will not do.
const DIRECTORY: &str = "EBBPOOL_CACHE";

/// Results over one trace, found by what the trace holds and not by its name.
pub(crate) struct Cache {
    directory: PathBuf,
    prefix: String,
}

impl Cache {
    /// The results kept of `source`; `None` where nothing can be kept.
    pub(crate) fn of(source: &Source) -> Option<Self> {
        let trace = source.content_key().ok()?;
        let trace: String = trace.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Cache {
            directory: directory()?,
            prefix: format!("{trace} {} ", version()?),
        })
    }

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

/// Where results are kept.
fn directory() -> Option<PathBuf> {
    match std::env::var_os(DIRECTORY) {
        Some(directory) if !directory.is_empty() => Some(directory.into()),
        _ => Some(ProjectDirs::from("", "", "ebbpool")?.cache_dir().into()),
    }
}

/// Tells this build from every other: while a policy is being written, the version's number stays
/// the same and its results do not.
fn version() -> Option<String> {
    let program = std::env::current_exe().ok()?.metadata().ok()?;
    let built = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        program.len(),
        built.as_nanos()
    ))
}

impl Store for Cache {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.path(key)).ok()
    }

    fn put(&self, key: &str, value: &[u8]) {
        // A result that cannot be kept, on a full disk say, is computed again the next time.
        let _ = self.write(key, value);
    }
}
