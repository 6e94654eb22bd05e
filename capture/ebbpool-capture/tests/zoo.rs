//! Programs that deceive a capture, from `capture/zoo` and from this file. Each gets an error or a right capture, soon.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebbpool_capture::sources::postgres::{self, PostgresSource};
use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{CaptureError, CaptureSource, End, Limits, Process, capture, mapping};

use common::{FOLDER, OwnedChild, capture_rounds, capture_work, cost, is_installed, written};

const PAGE: u64 = 4096;
const RING: u32 = 16 << 20;

/// What a capture of a hostile program may take at most.
const SOON: Duration = Duration::from_secs(20);

fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Compiles a program of the zoo into `folder`; `None`, with a line that says so, where there is no compiler.
fn compiled(name: &str, folder: &Path, libraries: &[&str]) -> Option<PathBuf> {
    if !is_installed("cc") {
        return None;
    }
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zoo");
    let program = folder.join(name);
    let done = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(zoo.join(format!("{name}.c")))
        .args(libraries)
        .output()
        .expect("cc");
    if !done.status.success() && !libraries.is_empty() {
        skip(&format!("{libraries:?} is not installed"));
        return None;
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    Some(program)
}

fn started(program: &Path, arguments: &[&str], folder: &Path) -> OwnedChild {
    let child = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = OwnedChild(child.expect("a process"));
    child.wait_for("ready");
    child
}

/// Bytes of a program that differ in a process's memory from its file: the kernel's breakpoints.
fn breakpoints(process: i32, program: &Path) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("a file");
    let memory = File::open(format!("/proc/{process}/mem")).expect("memory");
    let file = fs::read(program).expect("a program");
    let name = program.to_string_lossy();
    let mappings = maps.lines().filter_map(mapping);
    let code = mappings.filter(|it| it.executable && it.path == name);
    let different = code.map(|mapping| {
        let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
        let read = memory.read_exact_at(&mut bytes, mapping.start);
        read.expect("memory");
        let file = &file[mapping.offset as usize..];
        bytes.iter().zip(file).filter(|(one, other)| one != other).count()
    });
    different.sum()
}

#[test]
fn a_server_that_becomes_another_program_gets_no_probe_into_it() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cuckoo) = compiled("cuckoo", folder.path(), &[]) else {
        return;
    };
    // Another file with the same code, so that each offset of the one is code of the other.
    let victim = folder.path().join("victim");
    fs::copy(&cuckoo, &victim).expect("copied");
    fs::write(folder.path().join("PG_VERSION"), "15\n").expect("written");
    let mut other = started(&victim, &["victim"], folder.path());
    let path = victim.to_string_lossy().into_owned();
    let mut child = started(&cuckoo, &[&path], folder.path());
    let mut source = PostgresSource::open(Some(child.pid())).expect("a source");
    child.send("become another");
    child.wait_for("ready");
    let limits = Limits { time: Duration::from_millis(500), ..Limits::default() };
    let mut probed = 0;
    let pid = other.pid();
    let captured = capture(&mut source, limits, cost, |_| {
        probed = probed.max(breakpoints(pid, &victim));
        true
    });
    let error = captured.map(|_| probed).expect_err("another program");
    assert!(matches!(error, CaptureError::Changed(_)), "{error}");
    assert_eq!(breakpoints(pid, &victim), 0);
    other.send("still there?");
    other.wait_for("sum 9");
}

#[test]
fn a_program_that_was_replaced_by_another_file_is_probed_where_it_was() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cuckoo) = compiled("cuckoo", folder.path(), &[]) else {
        return;
    };
    fs::write(folder.path().join("PG_VERSION"), "15\n").expect("written");
    let mut child = started(&cuckoo, &["victim"], folder.path());
    let mut source = PostgresSource::open(Some(child.pid())).expect("a source");
    let limits = Limits { time: Duration::from_secs(5), overhead: f64::INFINITY, ..Limits::default() };
    let (_, report) = capture_rounds(&mut source, limits, cost, 10, || child.send("call"));
    // The call of one of the three probes is an event that has no page.
    assert_eq!((report.end, report.lost), (End::Stopped, 0));
    assert!(report.events >= 1);
}

/// A process called `postgres` in `folder`.
fn called_postgres(folder: &Path) -> OwnedChild {
    let program = folder.join("postgres");
    fs::copy("/bin/sleep", &program).expect("copied");
    let child = Command::new(program).arg("60").current_dir(folder).spawn();
    let child = OwnedChild(child.expect("a process"));
    let started = Instant::now();
    while Process(child.pid()).command().as_deref() != Some("postgres") {
        assert!(started.elapsed() < SOON);
    }
    child
}

#[test]
fn files_without_an_end_hold_nothing_up() {
    for kind in ["fifo", "endless"] {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["postmaster.pid", "PG_VERSION"] {
            let path = folder.path().join(name);
            if kind == "fifo" {
                let made = Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo").success());
            } else {
                symlink("/dev/zero", &path).expect("a link");
            }
        }
        let child = called_postgres(folder.path());
        let begun = Instant::now();
        assert!(!postgres::servers().contains(&Process(child.pid())));
        let error = PostgresSource::open(Some(child.pid())).err();
        let error = error.expect("no server").to_string();
        assert!(error.contains("no PG_VERSION"), "{error}");
        assert!(begun.elapsed() < SOON, "{kind}");
    }
}

#[test]
fn mapped_devices_and_large_files_without_a_program_are_not_read() {
    for name in ["endless_map", "large_maps"] {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(program) = compiled(name, folder.path(), &[]) else {
            return;
        };
        let child = started(&program, &[], folder.path());
        let begun = Instant::now();
        let error = SqliteSource::open(child.pid()).err().expect("no SQLite");
        assert!(matches!(error, CaptureError::Build { .. }), "{error}");
        assert!(begun.elapsed() < SOON);
    }
}

/// A server of the zoo that works in `folder`, and says that it is PostgreSQL 15 if no file there says another version.
fn server(name: &str, arguments: &[&str], folder: &Path) -> Option<(OwnedChild, PostgresSource)> {
    let program = compiled(name, folder, &[])?;
    let version = folder.join("PG_VERSION");
    if !version.exists() {
        fs::write(version, "15\n").expect("written");
    }
    let child = started(&program, arguments, folder);
    let source = PostgresSource::open(Some(child.pid())).expect("a source");
    Some((child, source))
}

#[test]
fn the_files_of_a_server_that_has_ended_are_known() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base/5");
    fs::create_dir_all(&base).expect("a folder");
    let relation = File::create(base.join("16384")).expect("a file");
    relation.set_len(10 * 8192).expect("a size");
    let Some((mut child, mut source)) = server("endless_names", &["one"], folder.path()) else {
        return;
    };
    child.send("start");
    let captured = capture(&mut source, Limits::default(), cost, |progress| {
        if progress.is_some_and(|progress| progress.references > 0) {
            let _ = child.0.kill();
        }
        true
    });
    let (recorder, report) = captured.expect("a capture");
    assert_eq!(report.end, End::Target);
    child.0.wait().expect("its end");
    let trace = source.trace(recorder, true);
    let pages: Vec<u64> = trace.objects.iter().map(|object| object.pages).collect();
    assert_eq!(pages, [10]);
}

#[test]
fn forks_that_no_server_has_are_no_objects() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base/5");
    fs::create_dir_all(&base).expect("a folder");
    let init = base.join("16384_init");
    fs::write(&init, "").expect("written");
    for segment in 1..20_000 {
        fs::hard_link(&init, base.join(format!("16384_init.{segment}"))).expect("a link");
    }
    let Some((mut child, mut source)) = server("endless_names", &["forks"], folder.path()) else {
        return;
    };
    let limits = Limits { time: SOON, overhead: f64::INFINITY, ..Limits::default() };
    let (recorder, _) = capture_rounds(&mut source, limits, cost, 50, || child.send("start"));
    let begun = Instant::now();
    let trace = source.trace(recorder, true);
    assert_eq!((trace.objects.len(), trace.objects[0].part.as_str()), (1, "init"));
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_server_that_says_more_than_can_be_read_ends_no_later() {
    const TIME: Duration = Duration::from_secs(2);
    let Some(cost) = cost() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return skip("the program of this test is for x86-64");
    }
    for (references, ends) in [(100_000, &[End::References][..]), (usize::MAX, &[End::Time, End::Overhead])] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("PG_VERSION"), "17\n").expect("written");
        let Some((mut child, mut source)) = server("endless_names", &["extends"], folder.path()) else {
            return;
        };
        let limits = Limits { time: TIME, references, overhead: f64::INFINITY, ..Limits::default() };
        let (recorder, report) = capture_rounds(&mut source, limits, cost, usize::MAX, || child.send("start"));
        println!("{} references, {} events, {} lost in {:?}", recorder.len(), report.events, report.lost, report.time);
        assert!(ends.contains(&report.end) && recorder.len() <= references, "{report:?}");
        assert!(report.time < TIME + Duration::from_secs(2), "{report:?}");
    }
}

/// Attaches this thread to a process as a debugger does, and leaves it.
#[allow(unsafe_code)]
fn debug(process: i32, request: libc::c_uint) -> bool {
    // SAFETY: neither request has a pointer.
    unsafe { libc::ptrace(request, process, 0, 0) == 0 }
}

#[test]
fn a_capture_and_a_debugger_do_not_meet_in_a_program() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some((mut child, mut source)) = server("endless_names", &["one"], folder.path()) else {
        return;
    };
    child.send("start");
    let mut seized = false;
    let limits = Limits { time: SOON, ..Limits::default() };
    let captured = capture(&mut source, limits, cost, |_| {
        seized = seized || debug(child.pid(), libc::PTRACE_SEIZE);
        seized
    });
    let (_, report) = captured.expect("a capture");
    if !seized {
        return skip("this user may not trace a process");
    }
    assert!(report.end == End::Debugged && report.time < SOON, "{report:?}");
    let error = capture(&mut source, limits, cost, |_| true).expect_err("refused");
    assert!(matches!(error, CaptureError::Debugged(process) if process == child.pid()), "{error}");
}

#[test]
fn a_program_in_a_file_system_that_a_program_serves_gets_no_probe() {
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).expect("a folder");
    let programs = ["cuckoo", "served"].map(|name| compiled(name, folder.path(), &[]));
    let [Some(cuckoo), Some(served)] = programs else {
        return;
    };
    fs::write(folder.path().join("PG_VERSION"), "15\n").expect("written");
    let paths = [&cuckoo, &mounted].map(|path| path.to_string_lossy().into_owned());
    let child = started(&served, &[&paths[0], &paths[1]], folder.path());
    if !mounted.join("postgres").exists() {
        return skip("this user may not mount a file system of its own");
    }
    let opened = PostgresSource::open(Some(child.pid()));
    drop(child);
    let unmounted = Command::new("umount").arg("-l").arg(&mounted).output();
    // The program that serves it does the same when the other one has ended.
    unmounted.expect("umount");
    let error = opened.err().expect("refused").to_string();
    assert!(error.contains("FUSE"), "{error}");
}

#[test]
fn nor_does_one_in_an_overlay_above_such_a_file_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mounted, above, empty] = ["mounted", "above", "empty"].map(|name| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("a folder");
        path
    });
    let programs = ["cuckoo", "served"].map(|name| compiled(name, folder.path(), &[]));
    let [Some(cuckoo), Some(served)] = programs else {
        return;
    };
    fs::write(folder.path().join("PG_VERSION"), "15\n").expect("written");
    let paths = [&cuckoo, &mounted, &above, &empty];
    let paths = paths.map(|path| path.to_string_lossy().into_owned());
    let words: Vec<&str> = paths.iter().map(String::as_str).collect();
    let child = started(&served, &words, folder.path());
    let process = Process(child.pid());
    let is_there = process.program().is_ok_and(|it| it.ends_with("postgres"));
    let opened = PostgresSource::open(Some(child.pid()));
    drop(child);
    let unmounted = Command::new("umount").arg("-l").arg(&mounted).output();
    unmounted.expect("umount");
    if !is_there {
        return skip("this user may not mount file systems of its own");
    }
    let error = opened.err().expect("refused").to_string();
    assert!(error.contains("overlay") && error.contains("FUSE"), "{error}");
}

#[test]
fn a_program_with_any_number_of_probes_gets_none() {
    let Some(cost) = cost() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return skip("the program of this test is for x86-64");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_child, mut source)) = server("many_probes", &[], folder.path()) else {
        return;
    };
    let error = capture(&mut source, Limits::default(), cost, |_| false).expect_err("refused");
    assert!(error.to_string().contains("places to probe"), "{error}");
}

#[test]
fn calls_of_32_bit_programs_are_not_taken_for_others() {
    let Some(cost) = cost() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return skip("this kernel cannot make 32-bit system calls of x86");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("old_calls", folder.path(), &[]) else {
        return;
    };
    let data = folder.path().join("data");
    fs::write(&data, vec![1; PAGE as usize]).expect("written");
    let path = data.to_string_lossy().into_owned();
    let mut child = started(&program, &[&path], folder.path());
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    let limits = Limits { overhead: f64::INFINITY, ..Limits::default() };
    let (recorder, report) = capture_rounds(&mut source, limits, cost, 4, || {
        child.send("start");
        child.wait_for("done");
    });
    if report.end == End::Target {
        return skip("this kernel cannot make 32-bit system calls of x86");
    }
    let counts = source.counts();
    assert_eq!((recorder.len(), counts.reads, counts.unseen), (1, 1, 3));
}

/// Asks io_uring for 4 GiB at a time of a file that has a page.
#[allow(unsafe_code)]
#[test]
fn child_that_asks_for_too_much() {
    use io_uring::{IoUring, opcode, types::Fd};
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    const ASKED: u32 = 0xffff_f000;
    let file = File::open(folder.join("data")).expect("a file");
    let ring = IoUring::new(8);
    common::wait_for_start();
    let Ok(mut ring) = ring else {
        fs::create_dir(folder.join("done")).expect("a folder");
        return;
    };
    // SAFETY: a new mapping replaces no other one.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            1 << 32,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED);
    for position in [0, 0, 0, 100, 1 << 40] {
        let read = opcode::Read::new(Fd(file.as_raw_fd()), memory.cast(), ASKED);
        // SAFETY: the memory is as large as the request says, and lives on.
        unsafe { ring.submission().push(&read.offset(position).build()) }.expect("room");
        ring.submit_and_wait(1).expect("submitted");
        ring.completion().next().expect("a completion");
    }
    fs::create_dir(folder.join("done")).expect("a folder");
    common::wait_for_line();
}

#[test]
fn reads_count_what_the_file_has_and_not_what_they_ask_for() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), vec![1; PAGE as usize]).expect("written");
    let mut child = OwnedChild::of_test("child_that_asks_for_too_much", folder.path());
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    if source.description().contains("does not show") {
        return skip(&format!("io_uring: {}", source.description()));
    }
    let done = folder.path().join("done");
    let start = &mut || child.send("start");
    let (recorder, _) = capture_work(&mut source, cost, RING, start, &|| done.exists());
    let (found, _) = written(&source.trace(recorder, true), "/data");
    if source.counts().reads == 0 {
        return skip("this kernel cannot give io_uring to this user");
    }
    // Behind the end of the file there is nothing to read.
    assert_eq!(found, [(0, false); 4]);
}

#[test]
fn child_that_reads_much() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let file = File::open(folder.join("data")).expect("a file");
    common::wait_for_start();
    let mut bytes = vec![0; 8 << 20];
    for _ in 0..20 {
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), bytes.len());
    }
    common::wait_for_line();
}

#[test]
fn no_more_references_are_recorded_than_asked_for() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let data = File::create(folder.path().join("data")).expect("a file");
    data.set_len(8 << 20).expect("a size");
    let mut child = OwnedChild::of_test("child_that_reads_much", folder.path());
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    let limits = Limits { references: 3000, overhead: f64::INFINITY, ..Limits::default() };
    let (recorder, report) = capture_rounds(&mut source, limits, cost, usize::MAX, || {
        child.send("start");
    });
    assert_eq!((recorder.len(), report.end), (3000, End::References));
}

#[test]
fn connections_that_follow_each_other_have_their_own_databases() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("turns", folder.path(), &["-l:libsqlite3.so.0"]) else {
        return;
    };
    let mut child = started(&program, &[], folder.path());
    let mut source = match SqliteSource::open(child.pid()) {
        Err(error @ CaptureError::Build { .. }) => return skip(&error.to_string()),
        source => source.expect("a source"),
    };
    let limits = Limits { overhead: f64::INFINITY, ..Limits::default() };
    let mut counted = Vec::new();
    let (recorder, report) = capture_rounds(&mut source, limits, cost, 4, || {
        child.send("start");
        counted = child.numbers();
    });
    assert_eq!(report.lost, 0);
    let trace = source.trace(recorder, true);
    for (name, requests) in ["/large.db", "/small.db"].into_iter().zip(counted) {
        let (found, _) = written(&trace, name);
        println!("{name}: {} captured, {requests} counted", found.len());
        assert_eq!(found.len() as u64, requests, "{name}");
    }
    assert_eq!(trace.objects.len(), 2, "{:?}", trace.objects);
}

#[test]
fn a_process_that_becomes_another_program_ends_its_capture() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("turns", folder.path(), &["-l:libsqlite3.so.0"]) else {
        return;
    };
    let mut child = started(&program, &["again"], folder.path());
    let mut source = match SqliteSource::open(child.pid()) {
        Err(error @ CaptureError::Build { .. }) => return skip(&error.to_string()),
        source => source.expect("a source"),
    };
    let limits = Limits { time: SOON, ..Limits::default() };
    let (_, report) = capture_rounds(&mut source, limits, cost, usize::MAX, || {
        child.send("become another");
    });
    assert_eq!(report.end, End::Replaced);
    assert!(source.is_alive() && report.time < SOON);
}

#[test]
fn a_process_whose_first_thread_has_ended_is_no_other_program() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("turns", folder.path(), &["-l:libsqlite3.so.0"]) else {
        return;
    };
    let mut child = started(&program, &["leader"], folder.path());
    let mut source = match SqliteSource::open(child.pid()) {
        Err(error @ CaptureError::Build { .. }) => return skip(&error.to_string()),
        source => source.expect("a source"),
    };
    let limits = Limits { time: SOON, overhead: f64::INFINITY, ..Limits::default() };
    // The kernel ties the probes of a single process to its first thread.
    let (_, report) = capture_rounds(&mut source, limits, cost, usize::MAX, || child.send("first thread"));
    assert_eq!(report.end, End::Replaced);
    drop(source);
    let error = SqliteSource::open(child.pid()).err().expect("refused").to_string();
    assert!(error.contains("first thread") && error.contains("capture process"), "{error}");
    // Reads and writes are seen in the kernel.
    child.wait_for("ready");
    let process = Process(child.pid());
    assert_eq!(process.program().expect("a program"), program.to_string_lossy());
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    let (recorder, report) = capture_rounds(&mut source, limits, cost, 4, || {
        child.send("start");
        child.numbers();
    });
    assert!(report.end == End::Stopped && !recorder.is_empty(), "{report:?}");
}

#[test]
fn a_second_sqlite_in_a_process_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("turns", folder.path(), &["-l:libsqlite3.so.0"]) else {
        return;
    };
    for (word, others) in [("once", 0), ("twice", 1)] {
        let child = started(&program, &[word], folder.path());
        let source = match SqliteSource::open(child.pid()) {
            Err(error @ CaptureError::Build { .. }) => return skip(&error.to_string()),
            source => source.expect("a source"),
        };
        assert_eq!(source.other_libraries().len(), others, "{}", source.description());
        assert_eq!(source.description().contains("not what goes by"), others > 0);
    }
}

#[test]
fn a_process_of_a_server_that_is_not_its_postmaster_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cuckoo) = compiled("cuckoo", folder.path(), &[]) else {
        return;
    };
    fs::write(folder.path().join("PG_VERSION"), "15\n").expect("written");
    let child = started(&cuckoo, &["victim"], folder.path());
    let process = Process(child.pid());
    // As a backend has it: the number of another process.
    let memory = fs::OpenOptions::new().write(true).open(process.path("mem"));
    let program = ebbpool_capture::ElfProgram::read(&cuckoo.to_string_lossy()).expect("a program");
    let displacement = process.displacement(&program, &cuckoo.to_string_lossy());
    let address = program.symbol("PostmasterPid").expect("a symbol") + displacement.expect("mapped");
    let written = memory.and_then(|memory| memory.write_all_at(&1i32.to_le_bytes(), address));
    if written.is_err() {
        return skip("captures need a user who may write memory of a process: this one may not");
    }
    let error = PostgresSource::open(Some(process.0)).err().expect("refused");
    assert!(error.to_string().contains("is no postmaster"), "{error}");
}

mod slow {
    use super::*;

    #[test]
    fn a_server_that_requests_new_relations_for_ever_ends_its_capture() {
        let Some(cost) = cost() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let Some((mut child, mut source)) = server("endless_names", &[], folder.path()) else {
            return;
        };
        let limits = Limits { time: 6 * SOON, overhead: f64::INFINITY, ..Limits::default() };
        child.send("start");
        let captured = capture(&mut source, limits, cost, |_| true);
        let (recorder, report) = captured.expect("a capture");
        assert_eq!((report.end, recorder.objects().len()), (End::Objects, 1 << 20));
    }
}
