//! What the pool and the lab export, by name, is that of the files `public_api.txt` beside their tests. After a deliberate
//! change: `EBBPOOL_WRITE_API=1 cargo test -p ebbpool-lab --test lab public_api`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The names that a declaration of a module makes public, for `pub use a::{B, c::D as E};` these are B and E.
fn names(declaration: &str) -> Vec<String> {
    let declared = declaration.trim_start().trim_start_matches("pub ");
    let constant = declared.strip_prefix("const ");
    let declared = constant.filter(|rest| rest.starts_with("fn ")).unwrap_or(declared);
    let (kind, rest) = declared.split_once([' ', '\n']).expect("a kind of item");
    if kind != "use" {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        return vec![rest[..end.unwrap_or(rest.len())].into()];
    }
    let used = rest.trim_end_matches(';');
    let list = used.split_once('{').map_or(used, |(_, list)| list);
    let name = |path: &str| path.rsplit([':', ' ']).next().map(String::from);
    let paths = list.trim_end_matches('}').split(',').map(str::trim);
    paths.filter(|path| !path.is_empty()).filter_map(name).collect()
}

/// Adds what a file exports, and the public modules below it. `inner` is the directory of the files of its modules.
fn add(file: &Path, inner: &Path, module: &str, found: &mut BTreeSet<String>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let mut condition = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        // The rows of results are in a macro, and indented.
        let is_item = line.starts_with("pub ") || line.starts_with("    pub struct ");
        if line.starts_with("#[cfg(") {
            condition = line;
        } else if is_item {
            let mut declaration = line.to_string();
            while line.starts_with("pub use") && !declaration.ends_with(';') {
                declaration += lines.next().expect("the end of a use");
            }
            for name in names(&declaration) {
                let path = format!("{module}::{name}");
                found.insert(format!("{path} {condition}").trim_end().into());
                if line.starts_with("pub mod") {
                    let (file, inner) = (inner.join(format!("{name}.rs")), inner.join(&name));
                    add(&file, &inner, &path, found);
                }
            }
            condition = "";
        } else if !line.starts_with("#[") {
            condition = "";
        }
    }
}

#[test]
fn the_public_api_is_the_recorded_one() {
    let wings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, module) in [("pool/ebbpool", "ebbpool"), ("lab/ebbpool-lab", "ebbpool_lab")] {
        let source: PathBuf = wings.join(name).join("src");
        let mut found = BTreeSet::new();
        add(&source.join("lib.rs"), &source, module, &mut found);
        let found = found.into_iter().map(|item| item + "\n");
        let found: String = found.collect();
        let path = wings.join(name).join("tests/public_api.txt");
        if env::var_os("EBBPOOL_WRITE_API").is_some() {
            fs::write(&path, &found).expect("the list is written");
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        let only = |these: &str, those: &str| -> Vec<String> {
            let others: BTreeSet<&str> = those.lines().collect();
            let these = these.lines().filter(|line| !others.contains(line));
            these.map(String::from).collect()
        };
        let (more, gone) = (only(&found, &recorded), only(&recorded, &found));
        assert!(
            more.is_empty() && gone.is_empty(),
            "{name} exports {more:?}, and no longer {gone:?}; EBBPOOL_WRITE_API=1 cargo test -p ebbpool-lab --test lab public_api \
             writes the list anew"
        );
    }
}
