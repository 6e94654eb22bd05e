//! Tests of what `./release` leaves in dist/, with programs that stand for those that build: a real run takes minutes.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::ROOT;

/// Programs that stand before those of the system. What is built has the time in it, so that no two runs build the same.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "cargo",
        r#"case $1 in
    build)
        mkdir -p "$CARGO_TARGET_DIR/release"
        cp "$STAND_INS/command" "$CARGO_TARGET_DIR/release/ebbpool"
        ;;
    *) echo '{}' ;;
esac"#,
    ),
    (
        "command",
        r#"case $1 in
    sqlite) touch "$3/a.so" ;;
    man) date +%N >"$2/ebbpool.1" ;;
    *) echo "$*" ;;
esac"#,
    ),
    ("objdump", "echo GLIBC_2.34"),
    (
        "dpkg-deb", r#"for word; do last=$word; done
date +%N >"$last""#,
    ),
    (
        "sha256sum",
        r#"[ -z "${WAIT:-}" ] || { touch "$STAND_INS/sums" && sleep 2; }
PATH=${PATH#"$STAND_INS":} exec sha256sum "$@""#,
    ),
    ("rustc", r#"mkdir -p "$STAND_INS/lib/rustlib/x86_64-unknown-linux-gnu/lib" && echo "$STAND_INS""#),
    ("uname", "echo x86_64"),
];

const MATURIN: &str = r#"mode=$1
while [ "$1" != -o ]; do shift; done
mkdir -p "$2"
if [ "$mode" = sdist ]; then
    mkdir -p "$STAND_INS/ebbpool-0.1.0"
    tar -C "$STAND_INS" -czf "$2/ebbpool-0.1.0.tar.gz" ebbpool-0.1.0
else
    date +%N >"$2/ebbpool-0.1.0-cp311-abi3-linux_x86_64.whl"
fi"#;

const CYCLONEDX: &str = r#"names='{"name":"ebbpool-sqlite"},{"name":"ebbpool-policy"},{"name":"clap"},{"name":"object"}'
echo '{"bomFormat":"CycloneDX","metadata":{"component":{"version":"0.1.0"}},"components":['"$names"']}' \
    >command/ebbpool-cli/ebbpool-sbom.json"#;

const INSTALL: &str = r#"mkdir -p "$DESTDIR$1/lib/pkgconfig"
echo prefix=/ >"$DESTDIR$1/lib/pkgconfig/ebbpool.pc""#;

/// A repository of one commit, with the script and what it packs.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Repository {
        let directory = TempDir::new().expect("a directory");
        let repository = Repository { directory };
        repository.copy("release");
        repository.copy("sqlite/packaging/ebbpool-sqlite.conf");
        for name in ["README.md", "CHANGELOG.md", "THIRD-PARTY-NOTICES"] {
            repository.file(name, "a document");
        }
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            repository.file(name, "a licence");
        }
        repository.file("pool/ebbpool-capi/README.md", "a document");
        repository.file("command/ebbpool-cli/Cargo.toml", "");
        repository.file("Cargo.toml", "version = \"0.1.0\"\n");
        repository.file(".gitignore", "/dist/\n/target/\n/stand-ins/\n");
        repository.program("pool/ebbpool-capi/install.sh", INSTALL);
        for (name, text) in PROGRAMS {
            repository.program(&format!("stand-ins/{name}"), text);
        }
        repository.program("target/release-tools/python/bin/maturin", MATURIN);
        repository.program("target/release-tools/bin/cargo-cyclonedx", CYCLONEDX);
        repository.git(&["init", "-q"]);
        repository.git(&["add", "."]);
        repository.commit();
        repository
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.root().join(name);
        let parent = path.parent().expect("it is in the repository");
        fs::create_dir_all(parent).expect("a directory");
        path
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file is written");
    }

    fn copy(&self, name: &str) {
        fs::copy(Path::new(ROOT).join(name), self.path(name)).expect("a copy");
    }

    fn program(&self, name: &str, text: &str) {
        self.file(name, &format!("#!/bin/sh\nset -eu\n{text}\n"));
        let rights = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), rights).expect("it is its owner's");
    }

    fn git(&self, words: &[&str]) {
        let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut command = Command::new("git");
        command.args(author).args(words).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let status = command.current_dir(self.root()).status();
        assert!(status.expect("git starts").success(), "{words:?}");
    }

    fn commit(&self) {
        self.git(&["commit", "-q", "--allow-empty", "-m", "a commit"]);
    }

    fn release(&self) -> Command {
        let stand_ins = self.root().join("stand-ins");
        let paths = env::var_os("PATH").unwrap_or_default();
        let paths = [stand_ins.clone()].into_iter().chain(env::split_paths(&paths));
        let mut command = Command::new("./release");
        command
            .args(["--untested", "x86_64"])
            .current_dir(self.root())
            .env("PATH", env::join_paths(paths).expect("a path without a colon"))
            .env("STAND_INS", stand_ins)
            .stdin(Stdio::null());
        for name in ["CARGO_TARGET_DIR", "RUSTC"] {
            command.env_remove(name);
        }
        command
    }

    fn passes(&self) -> String {
        let output: Output = self.release().output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).expect("a text")
    }

    /// The files in dist/ and their contents.
    fn dist(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.root().join("dist")).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let named = paths.map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("a file"))
        });
        named.collect()
    }
}

fn sum_of(repository: &Repository, name: &str) -> String {
    let mut command = Command::new("sha256sum");
    command.arg(name).current_dir(repository.root().join("dist"));
    let output = command.output().expect("it starts");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
fn a_signal_leaves_dist_as_it_was_or_as_it_is_to_be() {
    let repository = Repository::new();
    repository.passes();
    for second in [false, true] {
        let before = repository.dist();
        repository.commit();
        let mut child =
            repository.release().env("WAIT", "1").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let asked = repository.root().join("stand-ins/sums");
        let end = Instant::now() + Duration::from_secs(60);
        // First while sums are made, then while those in dist/ are compared.
        for number in 0..=usize::from(second) {
            while !asked.exists() {
                assert!(Instant::now() < end, "it makes no sums");
                sleep(Duration::from_millis(20));
            }
            fs::remove_file(&asked).expect("it is there");
            let other = repository.release().output().expect("it starts");
            let errors = String::from_utf8_lossy(&other.stderr);
            assert!(errors.contains("another ./release"), "{errors}");
            if number == usize::from(second) {
                let mut kill = Command::new("kill");
                kill.args(["-s", "TERM", &child.id().to_string()]);
                assert!(kill.status().expect("it starts").success());
            }
        }
        let passed = child.wait().expect("it ends").success();
        // A program that it has started may still run.
        let mut free = Command::new("flock");
        free.args(["release", "true"]).current_dir(repository.root());
        assert!(free.status().expect("it starts").success());
        let after = repository.dist();
        assert_eq!(passed, second);
        assert_eq!(after == before, !passed);
        assert!(after.contains_key("SHA256SUMS") && after.contains_key(".release"));
    }
}

#[test]
fn another_machines_file_that_has_changed_gets_no_sum() {
    const OTHER: &str = "ebbpool-0.1.0-aarch64-linux-gnu.tar.gz";
    let repository = Repository::new();
    repository.passes();
    let dist = |name: &str| repository.root().join("dist").join(name);
    fs::write(dist(OTHER), "whole").expect("it is written");
    fs::write(dist("notes"), "mine").expect("it is written");
    for (file, line) in [("SHA256SUMS", sum_of(&repository, OTHER)), (".release", format!("{OTHER}\tcompare\n"))] {
        let mut text = fs::read_to_string(dist(file)).expect("a file");
        text += &line;
        fs::write(dist(file), text).expect("it is written");
    }
    let printed = repository.passes();
    let line = printed.lines().find(|line| line.starts_with(OTHER));
    let line = line.expect("its file stays");
    assert!(line.ends_with("earlier: compare"), "{line}");
    let sums = fs::read_to_string(dist("SHA256SUMS")).expect("a file");
    assert!(sums.contains(OTHER), "{sums}");
    fs::write(dist(OTHER), "wh").expect("it is written");
    let printed = repository.passes();
    assert!(printed.contains(&format!("left out: {OTHER}")), "{printed}");
    let files = repository.dist();
    assert!(!files.contains_key(OTHER));
    assert_eq!(files["notes"], b"mine");
    let sums = fs::read_to_string(dist("SHA256SUMS")).expect("a file");
    assert!(!sums.contains(OTHER), "{sums}");
}
