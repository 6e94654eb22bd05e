//! Programs in C and Python are compiled, linked with the libraries that cargo has built, and run.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The flags of every compilation.
const FLAGS: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-std=c11", "-O1", "-g"];

/// A prefix with an installed library, and room for programs.
pub(crate) struct Installation {
    directory: TempDir,
}

/// Says why a test does nothing, also where the output of tests that pass is not shown: `./test` lists these lines.
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// True if a program can be started; says so if not.
pub(crate) fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("there is no program {program}"));
    }
    found
}

/// Runs a command that has to succeed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Installation {
    /// Installs what cargo has built, with the script that users run.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let test = env::current_exe().expect("the test's path");
        let built = test.parent().expect("a directory");
        let mut install = Command::new(Path::new(CRATE).join("install.sh"));
        run(install.arg(directory.path().join("prefix")).arg(built));
        Installation { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn library_directory(&self) -> PathBuf {
        self.path("prefix/lib")
    }

    /// An empty directory of this name.
    fn empty(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new directory");
        path
    }

    /// Compiles a source file and links it with these arguments; returns the program.
    pub(crate) fn compile(&self, source: &Path, name: &str, link: &[impl AsRef<OsStr>]) -> PathBuf {
        let program = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(FLAGS).arg("-I").arg(self.path("prefix/include"));
        run(cc.arg("-o").arg(&program).arg(source).args(link).arg("-lm"));
        program
    }

    fn compile_object(&self, source: &Path) {
        let object = self.path("object.o");
        let mut cc = Command::new("cc");
        cc.args(FLAGS).arg("-I").arg(self.path("prefix/include"));
        run(cc.arg("-c").arg("-o").arg(object).arg(source));
    }

    fn compile_shared(&self, source: &Path, name: &str) -> PathBuf {
        let directory = self.library_directory();
        let directory = directory.to_str().expect("UTF-8");
        let link = [format!("-L{directory}"), "-lebbpool".into(), "-lpthread".into(), format!("-Wl,-rpath,{directory}")];
        self.compile(source, name, &link)
    }
}

fn test_program(name: &str) -> PathBuf {
    Path::new(CRATE).join("tests/c").join(format!("{name}.c"))
}

fn example(name: &str) -> PathBuf {
    Path::new(CRATE).join("examples").join(name)
}

fn page_store() -> PathBuf {
    example("page_store.c")
}

fn valgrind() -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
    ]);
    valgrind
}

#[test]
fn the_page_store_survives_its_crash() {
    if !is_there("cc") {
        return;
    }
    let installed = Installation::new();
    let program = installed.compile_shared(&page_store(), "page_store");
    let output = run(Command::new(program).arg(installed.empty("store")));
    assert!(stdout(&output).contains("the counters add up to 400"));

    let library = installed.library_directory().join("libebbpool.a");
    let library = library.to_str().expect("UTF-8");
    let link = [library, "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    let program = installed.compile(&page_store(), "static_page_store", &link);
    let output = run(Command::new(program).arg(installed.empty("static-store")));
    assert!(stdout(&output).contains("the counters add up to 400"));
}

#[test]
fn pkg_config_has_what_a_program_needs() {
    if !is_there("cc") || !is_there("pkg-config") {
        return;
    }
    let installed = Installation::new();
    let flags = run(Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", installed.path("prefix/lib/pkgconfig"))
        .args(["--cflags", "--libs", "ebbpool"]));
    let flags = stdout(&flags);
    let program = installed.compile(&page_store(), "page_store", &flags.split_whitespace().collect::<Vec<_>>());
    // The name in the library is the one that is installed.
    let found =
        Command::new(program).env("LD_LIBRARY_PATH", installed.library_directory()).arg(installed.empty("store")).output();
    assert!(found.expect("the program can be started").status.success());
    let version = run(Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", installed.path("prefix/lib/pkgconfig"))
        .args(["--modversion", "ebbpool"]));
    assert_eq!(stdout(&version).trim(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_policy_drives_the_cache_of_a_dictionary_in_python() {
    if !is_there("python3") {
        return;
    }
    let installed = Installation::new();
    let library = installed.library_directory().join("libebbpool.so");
    let example = Path::new(CRATE).join("examples/page_store.py");
    for policy in ["cflru:window=0.5", "ebb", "fab", "lru:cluster=16"] {
        let output = run(Command::new("python3").env("PYTHONDONTWRITEBYTECODE", "1").arg(&example).arg(&library).arg(policy));
        let text = stdout(&output);
        assert!(text.contains("refused: unknown policy") && text.contains(" hits, "), "{text}");
    }
}

#[test]
fn a_policy_drives_a_buffer_manager_in_c() {
    if !is_there("cc") {
        return;
    }
    let installed = Installation::new();
    let program = installed.compile_shared(&example("policy.c"), "policy");
    let text = stdout(&run(&mut Command::new(program)));
    assert_eq!(text.matches(" writes, cost ").count(), 3, "{text}");
}

#[test]
fn the_storage_over_a_file_descriptor_compiles() {
    if !is_there("cc") {
        return;
    }
    let installed = Installation::new();
    installed.compile_object(&example("descriptor.c"));
}

/// The programs in the guide, each in a block of its own, and what they print.
#[test]
fn the_programs_of_the_guide_run() {
    let guide = Path::new(CRATE).join("../../docs/c.md");
    let Ok(guide) = fs::read_to_string(guide) else {
        skipped("docs/c.md is no part of the package");
        return;
    };
    if !is_there("cc") {
        return;
    }
    let installed = Installation::new();
    let blocks = guide.split("```c\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0));
    let mut programs = 0;
    for (at, block) in blocks.enumerate() {
        let source = installed.path(&format!("block-{at}.c"));
        fs::write(&source, block.to_owned() + "\n").expect("a file");
        let program = installed.compile_shared(&source, &format!("block-{at}"));
        run(Command::new(program).current_dir(installed.empty(&format!("directory-{at}"))));
        programs += 1;
    }
    assert!(programs >= 1, "{programs} programs in docs/c.md");
}

mod slow {
    use super::*;

    #[test]
    fn every_function_refuses_what_it_has_to() {
        if !is_there("cc") {
            return;
        }
        let installed = Installation::new();
        for name in ["options", "pages", "policies", "regions", "processes", "cancel"] {
            let program = installed.compile_shared(&test_program(name), name);
            let output = run(Command::new(&program).arg(installed.empty(&format!("{name}-files"))));
            assert!(stdout(&output).ends_with("all as expected\n"));
            // It takes longer than all other tests here. Valgrind does not see what another process writes into shared memory.
            if std::env::var_os("EBBPOOL_WHOLE").is_some() && !["processes", "cancel"].contains(&name) && is_there("valgrind") {
                let files = installed.empty(&format!("{name}-files-of-valgrind"));
                run(valgrind().arg(program).arg(files));
            }
        }
    }
}
