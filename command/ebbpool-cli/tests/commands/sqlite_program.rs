//! Tests of `ebbpool sqlite run`: the databases that it takes, and the programs that it does not start.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::harness::{Ebbpool, errors, failed};
use crate::sqlite::{Scratch, library};

#[test]
fn only_the_databases_that_are_asked_for_go_through_the_vfs() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file(
        "writer.py",
        "
import sqlite3, subprocess, sys
for name in ['home.db', 'other.db', 'more-1.db', 'more-2.db']:
    database = sqlite3.connect(name)
    print(name, database.execute('PRAGMA ebbpool_window').fetchone(), flush=True)
    database.close()
if len(sys.argv) > 1:
    subprocess.run([sys.executable, 'writer.py'])
",
    );
    let library = library();
    let run = |only: &[&str], variable: Option<&str>, arguments: &[&str]| {
        let mut args = vec!["sqlite", "run", "--window", "7"];
        args.extend(["--library", library.to_str().expect("a path in UTF-8")]);
        for pattern in only {
            args.extend(["--only", pattern]);
        }
        args.extend(["--", scratch.python, "writer.py"]);
        args.extend(arguments);
        let mut command = ebbpool.command(&args);
        if let Some(variable) = variable {
            command.env("EBBPOOL_SQLITE_FILES", variable);
        }
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let taken = text.lines().filter(|line| line.ends_with("('7',)"));
        let names = taken.map(|line| line.split(' ').next().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(run(&[], None, &[]).len(), 4);
    assert_eq!(run(&["home.db"], None, &[]), ["home.db"]);
    // So also in programs that it starts.
    assert_eq!(run(&["home.db"], None, &["again"]), ["home.db"; 2]);
    let several = run(&["home.db", "more-[1].db"], None, &[]);
    assert_eq!(several, ["home.db", "more-1.db"]);
    let path = fs::canonicalize(ebbpool.path("other.db")).expect("a path");
    assert_eq!(run(&[path.to_str().expect("UTF-8")], None, &[]), ["other.db"]);
    assert_eq!(run(&[], Some("more-*:other.db"), &[]).len(), 3);
    // The command line comes first.
    assert_eq!(run(&["home.db"], Some("other.db"), &[]), ["home.db"]);
}

#[test]
fn a_process_says_at_its_end_that_no_database_was_asked_for() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    ebbpool.file(
        "writer.py",
        "
import os, sqlite3, sys
for name in sys.argv[1:]:
    sqlite3.connect(name, uri=True).execute('PRAGMA user_version').fetchall()
if os.fork() == 0:
    sys.exit()
os.wait()
",
    );
    let library = library();
    let said = |only: &str, names: &[&str]| {
        let mut args = vec!["sqlite", "run", "--only", only];
        args.extend(["--library", library.to_str().expect("a path in UTF-8")]);
        args.extend(["--", scratch.python, "writer.py"]);
        args.extend(names);
        let output = ebbpool.command(&args).output().expect("it starts");
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output)
    };
    let text = said("hoem.db", &["home.db", "other.db"]);
    let word = "home.db\" and no database of EBBPOOL_SQLITE_FILES=hoem.db;";
    assert!(text.contains(word), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    // Where it has one, others are meant to be left; what is only read cannot be saved.
    assert_eq!(said("home.db", &["other.db", "home.db"]), "");
    assert_eq!(said("hoem.db", &["file:home.db?mode=ro", ":memory:"]), "");
    assert_eq!(said("hoem.db", &[]), "");
}

#[test]
fn a_database_behind_a_link_is_asked_for_by_either_name() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    fs::create_dir(ebbpool.path("real")).expect("a directory");
    fs::create_dir(ebbpool.path("links")).expect("a directory");
    ebbpool.file("real/home.db", "");
    symlink("../real/home.db", ebbpool.path("links/link.db")).expect("a link");
    symlink("real", ebbpool.path("other")).expect("a link");
    ebbpool.file(
        "writer.py",
        "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute('PRAGMA ebbpool_window').fetchone())
# Another name of a database that goes through the VFS leads to the same connection's files.
print(sqlite3.connect('real/home.db').execute('PRAGMA ebbpool_window').fetchone())
",
    );
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let directory = fs::canonicalize(ebbpool.directory()).expect("a path");
    let directory = directory.to_str().expect("a path in UTF-8");
    for (only, opened, is_taken) in [
        ("link.db", "links/link.db", true),
        ("link.db", "./links/../links/link.db", true),
        ("home.db", "links/link.db", true),
        ("other.db", "links/link.db", false),
        ("link.db", "real/home.db", false),
        (&format!("{directory}/links/*.db"), "links/link.db", true),
        (&format!("{directory}/links/*.db"), "./links/link.db", true),
        (&format!("{directory}/real/*.db"), "links/link.db", true),
        (&format!("{directory}/other/*.db"), "other/home.db", true),
        (&format!("{directory}/other/*.db"), "real/home.db", false),
    ] {
        let run = ["sqlite", "run", "--window", "7", "--library", library, "--only", only];
        let program = ["--", scratch.python, "writer.py", opened];
        let text = ebbpool.stdout(&[&run[..], &program].concat());
        let window = if is_taken { "('7',)" } else { "None" };
        assert_eq!(text, format!("{window}\n{window}\n"), "{only} {opened}");
    }
}

#[test]
fn the_variables_have_the_databases_and_a_mistake_is_refused() {
    let ebbpool = Ebbpool::in_scratch();
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let run = ["sqlite", "run", "--library", library];
    let only = ["--only", "home.db", "--only", "*.sqlite", "--show"];
    let shown = ebbpool.stdout(&[&run[..], &only].concat());
    let last = shown.lines().last().expect("a line");
    assert_eq!(last, "EBBPOOL_SQLITE_FILES=home.db:*.sqlite");
    let shown = ebbpool.stdout(&[&run[..], &["--show"]].concat());
    assert!(!shown.contains("EBBPOOL_SQLITE_FILES"), "{shown}");
    for (pattern, why) in [
        ("", "a pattern is empty"),
        ("a[", "a [ has no ]"),
        ("data/home.db", "begin it with /"),
        ("/var/lib/none/", "end the pattern with /*.db"),
        ("/usr", "end the pattern with /*.db"),
    ] {
        let args = [&run[..], &["--only", pattern, "--", "true"]].concat();
        ebbpool.refused(&args, 2, &["--only", why]);
    }
    let mut command = ebbpool.command(&[&run[..], &["--", "true"]].concat());
    let output = command.env("EBBPOOL_SQLITE_FILES", "a.db:").output();
    failed(&output.expect("it starts"), 2, &["a pattern is empty"]);
}

#[test]
fn a_program_with_sqlite_inside_itself_is_started_only_by_force() {
    let ebbpool = Ebbpool::in_scratch();
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    ebbpool.file("own.c", "int sqlite3_open_v2(void) { return 7; } int main(void) { return sqlite3_open_v2(); }");
    let build = |name: &str, more: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.args(["own.c", "-o", name]).args(more);
        let built = compiler.current_dir(ebbpool.directory()).status();
        let is_built = built.is_ok_and(|status| status.success());
        if !is_built {
            eprintln!("skipped: cc makes no program with {more:?}");
        }
        is_built
    };
    let run = |more: &[&str]| {
        let run = ["sqlite", "run", "--library", library];
        ebbpool.run(&[&run[..], more].concat())
    };
    if build("static", &["-static"]) {
        let words = ["./static is linked statically", "--force"];
        failed(&run(&["--", "./static"]), 1, &words);
        assert_eq!(run(&["--force", "--", "./static"]).status.code(), Some(7));
    }
    if build("own", &[]) {
        let words = ["./own has its SQLite inside itself", "--force"];
        failed(&run(&["--", "./own"]), 1, &words);
        ebbpool.file("script", "#!./own\n");
        let script = ebbpool.path("script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
        failed(&run(&["--", "./script"]), 1, &words);
    }
    // What is no program at all fails as it does without the command.
    ebbpool.file("text", "no program");
    failed(&run(&["--", "./text"]), 126, &["./text", "cannot run it"]);
}

#[test]
fn variables_are_shown_as_systemd_takes_them() {
    let ebbpool = Ebbpool::in_scratch();
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let show = |only: &str| {
        let run = ["sqlite", "run", "--library", library, "--show", "--only"];
        ebbpool.run(&[&run[..], &[only]].concat())
    };
    for (only, line) in [
        ("a.db", "EBBPOOL_SQLITE_FILES=a.db"),
        ("my home.db", "\"EBBPOOL_SQLITE_FILES=my home.db\""),
        ("a \"b\"\\%n.db", "\"EBBPOOL_SQLITE_FILES=a \\\"b\\\"\\\\%%n.db\""),
    ] {
        let output = show(only);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.lines().last(), Some(line), "{}", errors(&output));
    }
    failed(&show("a\nb.db"), 2, &["EBBPOOL_SQLITE_FILES", "line break"]);
}

#[test]
fn variables_that_are_no_text_and_libraries_that_are_none_are_refused() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    let ebbpool = &scratch.ebbpool;
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let bytes = OsStr::from_bytes(b"a\xff.db");
    for name in ["EBBPOOL_SQLITE", "EBBPOOL_SQLITE_FILES"] {
        let mut command = ebbpool.command(&["sqlite", "run", "--library", library, "--show"]);
        let output = command.env(name, bytes).output().expect("it starts");
        failed(&output, 2, &[name, "not UTF-8"]);
    }
    // In the library itself: no database is taken, or none is opened.
    let preloaded = |name: &str, value: &OsStr| {
        let program = "import sqlite3
print(sqlite3.connect('a.db').execute('PRAGMA ebbpool_window').fetchone())";
        let output = Command::new(scratch.python)
            .args(["-c", program])
            .current_dir(ebbpool.directory())
            .env("LD_PRELOAD", library)
            .env("EBBPOOL_SQLITE_PRELOAD", "1")
            .env(name, value)
            .output()
            .expect("Python starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text.trim().to_owned(), errors(&output))
    };
    let (text, error) = preloaded("EBBPOOL_SQLITE_FILES", bytes);
    assert_eq!(text, "None", "{error}");
    assert!(error.contains("it is not UTF-8"), "{error}");
    let (_, error) = preloaded("EBBPOOL_SQLITE", bytes);
    assert!(error.contains("unable to open"), "{error}");
    for (value, window) in [("1", "('5',)"), ("0", "None"), ("", "None")] {
        let (text, error) = preloaded("EBBPOOL_SQLITE_PRELOAD", OsStr::new(value));
        assert_eq!(text, window, "{value}: {error}");
    }

    let refused = |path: &str, words: &[&str]| {
        let args = ["sqlite", "run", "--library", path, "--", "true"];
        ebbpool.refused(&args, 2, words);
    };
    for path in ["/bin/sh", "writer.py"] {
        refused(path, &["is not the library", "sqlite3_open_v2"]);
    }
    // SQLite itself, as Python has it open.
    let program = "import sqlite3
print(next(line.split()[-1] for line in open('/proc/self/maps') if 'libsqlite3' in line))";
    let mut python = Command::new(scratch.python);
    let output = python.args(["-c", program]).output().expect("it starts");
    let sqlite = String::from_utf8_lossy(&output.stdout).into_owned();
    refused(sqlite.trim(), &["is not the library", "not SQLite itself"]);
    fs::create_dir(ebbpool.path("a$LIB")).expect("a directory");
    let copy = ebbpool.path("a$LIB/library.so");
    fs::copy(library, copy).expect("a copy");
    refused("a$LIB/library.so", &["dollar sign"]);
}

/// A library with a SQLite of its own, as wheels of Python have one. `passed_on` ends with the call, so that this seems to come
/// from what called it.
const PLUGIN: &str = r#"
int sqlite3_open_v2(const char *, void **, int, const char *);
int sqlite3_open(const char *, void **);
int sqlite3_open16(const void *, void **);
int sqlite3_exec(void *, const char *, void *, void *, void *);
int sqlite3_close(void *);
long long sqlite3_memory_used(void);
void *sqlite3_vfs_find(const char *);
int use(const char *path, int how) {
    static const unsigned short memory[] = {':', 'm', 'e', 'm', 'o', 'r', 'y', ':', 0};
    void *database = 0;
    long long before = sqlite3_memory_used();
    int code = how == 0 ? sqlite3_open_v2(path, &database, 6, 0) : how == 1 ? sqlite3_open(path, &database) : sqlite3_open16(memory, &database);
    if (code == 0 && sqlite3_memory_used() <= before) return 1000; /* Another copy has opened it. */
    if (code == 0) code = sqlite3_exec(database, "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)", 0, 0, 0);
    int closed = sqlite3_close(database);
    return code ? code : closed;
}
int has_vfs(void) { return sqlite3_vfs_find("ebbpool") != 0; }
int passed_on(const char *path, void **database) { return sqlite3_open(path, database); }
"#;

/// Makes libsqliteX.so.0, which is the system's SQLite by another name, and so another library to the loader; and plugin.so from
/// source that is linked with it. False, with a note, where that cannot be done.
pub fn has_second_copy(scratch: &Scratch, plugin: Option<&str>) -> bool {
    let copy = "import sqlite3
path = next(line.split()[-1] for line in open('/proc/self/maps') if 'libsqlite3' in line)
library = open(path, 'rb').read()
changed = library.replace(b'libsqlite3.so.0\\0', b'libsqliteX.so.0\\0')
assert changed != library, path
open('libsqliteX.so.0', 'wb').write(changed)";
    let copied = run_python(scratch, &[copy], &[]);
    let mut built = copied.status.success();
    if let Some(plugin) = plugin.filter(|_| built) {
        scratch.ebbpool.file("plugin.c", plugin);
        let mut compiler = Command::new("cc");
        compiler.args([
            "-O2", "-shared", "-fPIC", "-o", "plugin.so", "plugin.c", "-L.", "-l:libsqliteX.so.0", "-Wl,-rpath,$ORIGIN",
        ]);
        built = compiler.current_dir(scratch.ebbpool.directory()).status().is_ok_and(|status| status.success());
    }
    if !built {
        eprintln!("skipped: no second copy of SQLite can be made: {}", errors(&copied));
    }
    built
}

fn run_python(scratch: &Scratch, program: &[&str], variables: &[(&str, &str)]) -> std::process::Output {
    let mut python = Command::new(scratch.python);
    python.arg("-c").args(program).current_dir(scratch.ebbpool.directory()).envs(variables.iter().copied());
    python.output().expect("Python starts")
}

#[test]
fn each_copy_of_sqlite_in_a_process_opens_databases_of_its_own() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    if !has_second_copy(&scratch, Some(PLUGIN)) {
        return;
    }
    let python = |program: &str, variables: &[(&str, &str)]| run_python(&scratch, &[program], variables);
    let own = "import sqlite3
own = sqlite3.connect('own.db')
own.execute('CREATE TABLE IF NOT EXISTS t (a)')
own.execute('INSERT INTO t VALUES (1)')
own.commit()
window = own.execute('PRAGMA ebbpool_window').fetchone()
";
    let other = "import ctypes
plugin = ctypes.CDLL('./plugin.so')
used = [plugin.use(b'other.db', how) for how in range(3)]
";
    let end = "handle = ctypes.c_void_p(1)
print(window, used, plugin.has_vfs(), plugin.passed_on(b'own.db', ctypes.byref(handle)), handle.value)
own.close()
print(sqlite3.connect('own.db').execute('SELECT count(*) FROM t').fetchone()[0])
";
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let ambiguous = "has 2 copies of SQLite";
    for (rows, (first, second)) in [(own, other), (other, own)].into_iter().enumerate() {
        let program = [first, second, end].concat();
        for (number, (is_on, files, expected)) in [
            ("0", "*", "None [0, 0, 0] 0 14 None"),
            ("1", "*", "('5',) [0, 0, 0] 1 14 None"),
            ("1", "own.db", "('5',) [0, 0, 0] 1 14 None"),
        ]
        .into_iter()
        .enumerate()
        {
            let variables = [("LD_PRELOAD", library), ("EBBPOOL_SQLITE_PRELOAD", is_on), ("EBBPOOL_SQLITE_FILES", files)];
            let output = python(&program, &variables);
            let said = errors(&output);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{:?}: {said}", output.status);
            assert_eq!(text, format!("{expected}\n{}\n", 3 * rows + number + 1), "{said}");
            assert!(said.contains(ambiguous), "{said}");
        }
    }
    assert_eq!(scratch.judge("other.db", "SELECT count(*) FROM t"), serde_json::json!([[12]]));
}

/// As apsw in a program that uses Python's module, too: a second copy of SQLite, of which the library does not know, has the
/// database open when the library is to take it.
const SECOND_COPY_FIRST: &str = "
import ctypes, sqlite3, sys
journal, rounds = sys.argv[1], int(sys.argv[2])
other = ctypes.CDLL('./libsqliteX.so.0')
handle = ctypes.c_void_p()
acknowledged = refused = 0
def run(statement):
    code = other.sqlite3_exec(handle, statement, None, None, None)
    return code == 0
assert other.sqlite3_open_v2(b'a.db', ctypes.byref(handle), 6, None) == 0
other.sqlite3_busy_timeout(handle, 5)
assert run(b'PRAGMA journal_mode=' + journal.encode())
assert run(b'CREATE TABLE t (k INTEGER PRIMARY KEY, v)') and run(b'CREATE INDEX i ON t (v)')
own = None
for _ in range(rounds):
    try:
        own = own or sqlite3.connect('a.db', timeout=0.005, isolation_level=None)
        own.execute('INSERT INTO t (v) VALUES (randomblob(200))')
        acknowledged += 1
    except sqlite3.Error as error:
        assert 'locked' in str(error), error
        refused += 1
        own = None
    if run(b'INSERT INTO t (v) VALUES (randomblob(200))'):
        acknowledged += 1
    else:
        refused += 1
if own:
    own.close()
assert other.sqlite3_close(handle) == 0
# Once the other copy has left, the library takes the database.
own = sqlite3.connect('a.db', isolation_level=None)
own.execute('INSERT INTO t (v) VALUES (1)')
print(acknowledged + 1, refused > 0, own.execute('PRAGMA ebbpool_window').fetchone())
own.close()
";

#[test]
fn a_second_copy_of_sqlite_that_came_first_loses_nothing() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    if !has_second_copy(&scratch, None) {
        return;
    }
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    for journal in ["wal", "delete"] {
        for rounds in ["1", "60"] {
            for options in ["window=0", "window=30"] {
                let _ = fs::remove_file(scratch.ebbpool.path("a.db"));
                let variables = [("LD_PRELOAD", library), ("EBBPOOL_SQLITE_PRELOAD", "1"), ("EBBPOOL_SQLITE", options)];
                let output = run_python(&scratch, &[SECOND_COPY_FIRST, journal, rounds], &variables);
                let context = format!("{journal}, {rounds}, {options}: {}", errors(&output));
                assert!(output.status.success(), "{context}");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let acknowledged: u64 = text.split(' ').next().and_then(|rows| rows.parse().ok()).expect("a number");
                let found = scratch.judge(
                    "a.db",
                    "SELECT (SELECT group_concat(integrity_check) FROM pragma_integrity_check), count(*) FROM t",
                );
                assert_eq!(found, serde_json::json!([["ok", acknowledged]]), "{context}{text}");
                assert!(journal == "delete" || text.contains("True"), "{context}{text}");
            }
        }
    }
}
