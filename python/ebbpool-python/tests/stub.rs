//! The stub that type checkers read names what the extension module exports, also where no Python is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names in the `use` lines of the module.
fn exported(source: &str) -> BTreeSet<String> {
    let uses = source.split("use super::").skip(1);
    let names = uses.flat_map(|line| {
        let line = line.split(';').next().unwrap_or_default();
        let (_, names) = line.split_once("::").unwrap_or(("", line));
        let names = names.trim_matches(|letter: char| "{} \n".contains(letter));
        let names = names.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(String::from)
    });
    names.collect()
}

/// The names of the classes and functions at the beginning of a line.
fn declared(stub: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?;
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        Some(rest[..end].to_string())
    };
    stub.lines().filter_map(name).collect()
}

#[test]
fn the_stub_declares_what_the_module_exports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file of the project");
    let exported = exported(&read("src/lib.rs"));
    assert!(exported.contains("compare") && exported.contains("Trace"));
    let stub = read("../../python/ebbpool/_ebbpool.pyi");
    assert_eq!(declared(&stub), exported);
}
