//! Tests of a program of sqlite/packaging/, with modules that stand for Home Assistant's.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::ROOT;

const VERSIONS: &str = r#"
class InvalidVersion(ValueError):
    pass

class Version:
    def __init__(self, text):
        try:
            self.numbers = [int(number) for number in text.split(".")]
        except ValueError:
            raise InvalidVersion(text)

    def __gt__(self, other):
        return self.numbers > other.numbers
"#;

/// What starts Home Assistant 2026.11.0 says where a version has used its directory.
fn started_after(used: Option<&[u8]>) -> Option<(bool, String)> {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        let parent = path.parent().expect("it is in the directory");
        fs::create_dir_all(parent).expect("a directory");
        fs::write(&path, bytes).expect("it is written");
        path
    };
    write("homeassistant/const.py", b"__version__ = '2026.11.0'");
    write("packaging/version.py", VERSIONS.as_bytes());
    let hass = write("bin/hass", b"#!/bin/sh\necho \"$@\" >&2\n");
    fs::set_permissions(hass, fs::Permissions::from_mode(0o755)).expect("it is its owner's");
    if let Some(version) = used {
        write(".HA_VERSION", version);
    }
    let output = Command::new("python3")
        .arg(Path::new(ROOT).join("sqlite/packaging/home-assistant/start-home-assistant"))
        .arg(directory.path())
        .env("PYTHONPATH", directory.path())
        .env("PATH", format!("{}/bin:/usr/bin:/bin", directory.path().display()))
        .output();
    match output {
        Ok(output) => Some((output.status.success(), String::from_utf8(output.stderr).expect("a text"))),
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "skipped: python3 is not installed");
            None
        }
    }
}

#[test]
fn home_assistant_does_not_start_where_a_newer_one_was() {
    let older: [Option<&[u8]>; 4] = [None, Some(b"2026.11.0"), Some(b"2026.10.3\n"), Some(b"2025.12.1\n")];
    for used in older {
        let Some((succeeded, text)) = started_after(used) else {
            return;
        };
        assert!(succeeded && text.starts_with("--config /"), "{used:?}: {text}");
    }
    for (used, expected) in [
        (&b"2026.11.1\n"[..], "Home Assistant 2026.11.1 has used "),
        (b"2027.1.0", "Home Assistant 2027.1.0 has used "),
        (b"", "has '', and no version"),
        (b"\0\0\xff\0", "and no version"),
    ] {
        let Some((succeeded, text)) = started_after(Some(used)) else {
            return;
        };
        assert!(!succeeded && text.contains(expected), "{used:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
