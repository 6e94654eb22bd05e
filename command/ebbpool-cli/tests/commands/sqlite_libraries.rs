//! Tests of the libraries that the command carries: the files that they become, and the programs that load them.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::harness::{Ebbpool, errors, failed, succeeded};
use crate::sqlite::python;

/// A user without a cache: the command with an empty home.
struct Home {
    ebbpool: Ebbpool,
    home: PathBuf,
}

impl Home {
    fn new() -> Home {
        let ebbpool = Ebbpool::in_scratch();
        let home = ebbpool.path("home");
        fs::create_dir(&home).expect("a directory");
        Home { ebbpool, home }
    }

    /// Runs a copy of the command.
    fn command_of(&self, program: &Path, home: &Path, args: &[&str]) -> io::Result<Output> {
        let command = self.command(home, args);
        let mut copy = Command::new(program);
        copy.args(command.get_args()).current_dir(self.ebbpool.directory());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => copy.env(name, value),
                None => copy.env_remove(name),
            };
        }
        copy.output()
    }

    fn command(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = self.ebbpool.command(args);
        // Before the directory that all programs of root share.
        command.env("XDG_CACHE_HOME", home.join(".cache"));
        command.env_remove("XDG_RUNTIME_DIR");
        command.env_remove("EBBPOOL_SQLITE_LIBRARY");
        command.env("HOME", home);
        command
    }

    /// The paths that the command prints.
    fn libraries(&self, home: &Path) -> Vec<PathBuf> {
        let output = self.command(home, &["sqlite", "libraries"]).output();
        paths(succeeded(output.expect("it starts")))
    }
}

fn paths(printed: Vec<u8>) -> Vec<PathBuf> {
    let text = String::from_utf8(printed).expect("UTF-8");
    text.lines().map(PathBuf::from).collect()
}

/// Prints the window of the VFS through which a database is open.
const WINDOW: &str = "
import sqlite3
database = sqlite3.connect('a.db')
database.execute('CREATE TABLE IF NOT EXISTS t (n)')
print(database.execute('PRAGMA ebbpool_window').fetchone()[0])
";

#[test]
fn a_program_is_run_with_the_library_that_the_command_carries() {
    let Some(python) = python() else {
        return;
    };
    let home = Home::new();
    let run = ["sqlite", "run", "--window", "7", "--", python, "-c", WINDOW];
    let window = || {
        let output = home.command(&home.home, &run).output();
        succeeded(output.expect("it starts"))
    };
    assert_eq!(window(), b"7\n");
    let libraries = home.libraries(&home.home);
    assert!(libraries.iter().all(|path| path.starts_with(&home.home)));
    // Another user's file, or one of a disk that forgot, does no harm.
    let whole = fs::read(&libraries[0]).expect("a file");
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    for damaged in [&bytes[..], &bytes[..middle], b""] {
        fs::write(&libraries[0], damaged).expect("a file");
        assert_eq!(window(), b"7\n");
        assert!(fs::read(&libraries[0]).expect("a file") == whole);
    }
}

#[test]
fn sqlite_loads_the_extension_that_the_command_writes() {
    let home = Home::new();
    let home = &home.ebbpool;
    let directory = home.path("lib");
    home.refused(&["sqlite", "libraries", "lib"], 1, &["lib/libebbpool_sqlite_preload.so"]);
    fs::create_dir(&directory).expect("a directory");
    let written = paths(succeeded(home.run(&["sqlite", "libraries", "lib"])));
    let directory = directory.canonicalize().expect("a directory");
    let names = ["libebbpool_sqlite_preload.so", "libebbpool_sqlite.so"];
    assert_eq!(written, names.map(|name| directory.join(name)));
    let program = "
import sqlite3, sys
if not hasattr(sqlite3.Connection, 'enable_load_extension'):
    sys.exit(3)
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
database = sqlite3.connect('file:a.db?vfs=ebbpool&window=9', uri=True)
print(database.execute('PRAGMA ebbpool_window').fetchone()[0])
";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", program]).arg(&written[1]);
    let output = python.current_dir(home.directory()).output();
    match output {
        Ok(output) if output.status.code() != Some(3) => assert_eq!(succeeded(output), b"9\n"),
        _ => {
            let why = "/usr/bin/python3 has no sqlite3 that loads extensions";
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
        }
    }
}

#[test]
fn processes_that_start_at_the_same_time_agree_on_one_file() {
    let home = Home::new();
    let start = |_| {
        let mut command = home.command(&home.home, &["sqlite", "libraries"]);
        command.spawn().expect("it starts")
    };
    let children: Vec<_> = (0..6).map(start).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output());
    let printed: Vec<_> = outputs.map(|it| paths(succeeded(it.expect("an end")))).collect();
    assert!(printed.iter().all(|paths| *paths == printed[0]));
    let directory = printed[0][0].parent().expect("a directory");
    assert_eq!(fs::read_dir(directory).expect("a directory").count(), 2);
}

#[test]
fn a_library_that_another_user_can_replace_is_not_preloaded() {
    let home = Home::new();
    let [library, _] = &home.libraries(&home.home)[..] else {
        panic!("two libraries");
    };
    // The program in a directory that others can write, with the same library beside it.
    let shared = home.ebbpool.path("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("rights");
    let program = shared.join("ebbpool");
    let command = home.command(&home.home, &[]);
    fs::copy(command.get_program(), &program).expect("a copy");
    fs::copy(library, shared.join("libebbpool_sqlite_preload.so")).expect("a copy");
    let output = home.command_of(&program, &home.home, &["sqlite", "libraries"]);
    assert_eq!(paths(succeeded(output.expect("it starts")))[0], *library);
}

#[test]
fn what_a_killed_process_left_behind_is_removed_later() {
    let home = Home::new();
    let [library, _] = &home.libraries(&home.home)[..] else {
        panic!("two libraries");
    };
    let directory = library.parent().expect("a directory");
    let (new, old) = (directory.join(".new-young"), directory.join(".new-old"));
    for file in [&new, &old] {
        fs::write(file, "a part").expect("a file");
    }
    let two_hours_ago = SystemTime::now() - Duration::from_secs(7200);
    let file = fs::File::options().write(true).open(&old).expect("a file");
    file.set_modified(two_hours_ago).expect("a time");
    // Also where the library is there already.
    home.libraries(&home.home);
    assert!(new.exists() && !old.exists() && library.exists());
}

#[test]
fn libraries_for_a_service_can_be_read_by_all() {
    let home = Home::new();
    let directory = home.ebbpool.path("lib");
    fs::create_dir(&directory).expect("a directory");
    for mask in ["077", "000"] {
        let script = format!("umask {mask}; exec \"$@\"");
        let inner = home.command(&home.home, &["sqlite", "libraries", "lib"]);
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(home.ebbpool.directory());
        for path in paths(succeeded(command.output().expect("it starts"))) {
            let mode = fs::metadata(path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o644, "umask {mask}");
        }
    }
}

/// In a namespace of its own, as root, with an empty directory of caches.
#[test]
fn the_variables_for_a_service_come_with_a_note_where_its_library_may_go_away() {
    let home = Home::new();
    let show = ["sqlite", "run", "--show"];
    let output = home.command(&home.home, &show).output().expect("it starts");
    let words = "only this user can load";
    assert!(errors(&output).contains(words), "{}", errors(&output));
    let inner = home.command(&home.home, &show);
    let script = "mount -t tmpfs -o mode=755 none /var/cache || exit 77; unset XDG_CACHE_HOME; \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.env_remove("EBBPOOL_SQLITE_LIBRARY");
    match command.current_dir(home.ebbpool.directory()).output() {
        Ok(output) if output.status.code() != Some(77) && !errors(&output).starts_with("unshare:") => {
            let text = errors(&output);
            assert!(text.contains("note: /var/cache/ebbpool-sqlite/"), "{text}");
            assert!(text.contains("ebbpool sqlite libraries"), "{text}");
            assert!(succeeded(output).starts_with(b"LD_PRELOAD=/var/cache/"));
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "skipped: this process may mount nothing");
        }
    }
}

/// In a namespace of its own, as root, with a home that is mounted in some way; nothing where nothing may be mounted.
#[test]
fn a_home_that_forbids_writing_or_loading_is_passed_over() {
    let home = Home::new();
    let homes = [("ro", "077", "os error 30"), ("noexec,mode=700", "000", "noexec")];
    for (options, mask, word) in homes {
        for is_alone in [false, true] {
            let inner = home.command(&home.home, &["sqlite", "libraries"]);
            // Where all programs of root have theirs.
            let shared = if is_alone { "ro" } else { "mode=755" };
            let script = format!(
                "mount -t tmpfs -o {options} none \"$HOME\" && mount -t tmpfs -o {shared} none /var/cache || exit 77
                umask {mask} && \"$@\" && stat -c %a /var/cache/ebbpool-sqlite /var/cache/ebbpool-sqlite/* >&2"
            );
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", &script, "sh"]);
            command.arg(inner.get_program()).args(inner.get_args());
            for (name, value) in inner.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.current_dir(home.ebbpool.directory());
            let output = match command.output() {
                Ok(output) if !matches!(output.status.code(), Some(77)) && !errors(&output).starts_with("unshare:") => output,
                _ => {
                    let _ = writeln!(std::io::stderr(), "skipped: this process may mount nothing");
                    return;
                }
            };
            if is_alone {
                failed(&output, 1, &[word, "--library"]);
            } else {
                assert_eq!(errors(&output), "755\n644\n644\n");
                let libraries = paths(output.stdout);
                assert!(libraries.iter().all(|path| path.starts_with("/var/cache")));
            }
        }
    }
}
