//! Computes the identity of the code, which becomes part of the key of each stored result.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The crates whose code determines the results.
const RESULT_CRATES: [&str; 6] =
    ["ebbpool-cost", "ebbpool-policy", "ebbpool-device", "ebbpool-trace", "ebbpool-sim", "ebbpool-lab"];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // Crates stand in wings beside this one's, or beside this one, where a program vendors its crates.
    let mut wings: Vec<PathBuf> =
        fs::read_dir(here.join("../..")).into_iter().flatten().flatten().map(|it| it.path()).collect();
    wings.sort();
    let found = RESULT_CRATES.map(|name| wings.iter().map(|wing| wing.join(name).join("src")).find(|source| source.is_dir()));
    // A crate from a registry stands beside no crate of these names; then the version alone identifies the code.
    let missing: Vec<&str> =
        RESULT_CRATES.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(name, _)| *name).collect();
    assert!(
        missing.is_empty() || missing.len() == RESULT_CRATES.len(),
        "the sources of {missing:?} are in no directory beside that of ebbpool-lab: stored results would outlive changes of them"
    );
    let mut sources = Vec::new();
    for source in found.iter().flatten() {
        println!("cargo::rerun-if-changed={}", source.display());
        collect(source, &mut sources);
    }
    sources.sort();
    let mut digest = Sha256::new();
    for path in sources {
        let text = fs::read(&path).unwrap_or_default();
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(&text);
    }
    let hash: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=EBBPOOL_SOURCES={}", &hash[..32]);
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => collect(&path, into),
            false => into.push(path),
        }
    }
}
