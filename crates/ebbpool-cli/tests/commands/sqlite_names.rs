//! Tests of `ebbpool sqlite` about databases that have several names, and names that are no files.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::sqlite::Scratch;

/// A database whose log is beside it, in a directory of its own.
fn killed_in_a_directory() -> Option<Scratch> {
    let scratch = Scratch::new()?;
    fs::create_dir(scratch.ebbpool.path("real")).expect("a directory");
    scratch.killed("real/a.db", "0", "delete", 20);
    Some(scratch)
}

#[test]
fn a_symbolic_link_leads_to_the_database_and_its_log() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    symlink("real/a.db", ebbpool.path("link.db")).expect("a link");
    symlink("none.db", ebbpool.path("broken.db")).expect("a link");
    let status = ebbpool.json(&["sqlite", "status", "link.db"]);
    assert_eq!(status["ebb"]["fit"], "fits", "{status}");
    let check = ebbpool.json(&["sqlite", "check", "link.db"]);
    assert_eq!(check["findings"], json!([]), "{check}");
    ebbpool.refused(
        &["sqlite", "measure", "link.db", "--minutes", "0.01"],
        1,
        &["uses ebbpool already"],
    );
    for command in ["status", "check", "recover", "measure"] {
        let words = ["broken.db: cannot read it: No such file"];
        ebbpool.refused(&["sqlite", command, "broken.db"], 1, &words);
    }
    // There is a log, so that nothing is given up.
    let done = ebbpool.json(&["sqlite", "recover", "link.db", "--discard-log"]);
    assert_eq!(
        (&done["recovered"], &done["discarded_to"]),
        (&Value::Bool(true), &Value::Null)
    );
    assert!(done["epochs"].as_u64() >= Some(20), "{done}");
    let count = scratch.judge("real/a.db", "SELECT count(*) >= 20 FROM t");
    assert_eq!(count, json!([[1]]));
    assert!(!ebbpool.path("real/a.db-ebb").exists());
}

#[test]
fn links_of_a_directory_are_followed_and_each_database_is_recovered_once() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::create_dir(ebbpool.path("links")).expect("a directory");
    for (target, name) in [
        ("../real/a.db", "links/link.db"),
        ("../real/a.db", "links/again.db"),
        ("../none.db", "links/broken.db"),
        ("../real", "links/directory"),
    ] {
        symlink(target, ebbpool.path(name)).expect("a link");
    }
    let done = ebbpool.json(&["sqlite", "recover", "links"]);
    let databases = done["databases"].as_array().expect("databases");
    assert_eq!(databases.len(), 1, "{done}");
    assert_eq!(databases[0]["recovered"], true);
    let path = databases[0]["path"].as_str().expect("a path");
    assert!(path.ends_with("/real/a.db"), "{path}");

    scratch.killed("real/a.db", "0", "delete", 20);
    symlink("a.db", ebbpool.path("real/link.db")).expect("a link");
    let done = ebbpool.json(&["sqlite", "recover", "real"]);
    let databases = done["databases"].as_array().expect("databases");
    assert_eq!(databases.len(), 1, "{done}");
    assert_eq!(databases[0]["path"], "real/a.db");
}

#[test]
fn a_log_beside_another_name_of_the_file_is_not_given_up() {
    let Some(scratch) = killed_in_a_directory() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::hard_link(ebbpool.path("real/a.db"), ebbpool.path("other.db")).expect("a link");
    let before = fs::read(ebbpool.path("other.db")).expect("a database");
    let words = ["2 names (hard links)", "another one may have the log"];
    ebbpool.refused(&["sqlite", "status", "other.db"], 1, &words);
    for more in [&[][..], &["--discard-log"], &["--discard-log", "--dry-run"]] {
        let recover = [&["sqlite", "recover", "other.db"][..], more].concat();
        ebbpool.refused(&recover, 1, &[&words[..], &["-samefile"]].concat());
    }
    let after = fs::read(ebbpool.path("other.db")).expect("a database");
    assert_eq!(after, before);
    ebbpool.json(&["sqlite", "recover", "real/a.db"]);
    assert_eq!(
        ebbpool.json(&["sqlite", "status", "other.db"])["plain"],
        true
    );
}
