//! Processes whose reads and writes are known, captured.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{CaptureBuffer, CaptureSource};

use common::{FOLDER, OwnedChild, PageReference, TestRandom, capture_work, cost, written};

const PAGE: u64 = 4096;
const FILE_BYTES: u64 = 16 << 20;
const RING: u32 = 16 << 20;

/// The folder, in the process that a test has started.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn data(folder: &Path) -> File {
    let path = folder.join("data");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).open(path);
    let file = file.expect("a file");
    file.set_len(FILE_BYTES).expect("a size");
    file
}

/// The references of transfers: position, bytes, and whether they write.
fn references(transfers: &[(u64, u64, bool)]) -> Vec<PageReference> {
    let pages = transfers.iter().flat_map(|&(position, bytes, write)| {
        let pages = position / PAGE..(position + bytes).div_ceil(PAGE);
        pages.map(move |page| (page, write))
    });
    pages.collect()
}

/// Reads and writes in every way, and returns what it did.
fn transfer(folder: &Path) -> Vec<(u64, u64, bool)> {
    let mut file = data(folder);
    let (mut random, mut log) = (TestRandom(5), Vec::new());
    let mut bytes = vec![7; 40_000];
    for _ in 0..5000 {
        let position = random.below(FILE_BYTES - 40_000);
        let length = 1 + random.below(20_000);
        let part = &mut bytes[..length as usize];
        let kind = random.below(6);
        if kind >= 2 {
            file.seek(SeekFrom::Start(position)).expect("a position");
        }
        let done = match kind {
            0 => file.read_at(part, position),
            1 => file.write_at(part, position),
            2 => file.read(part),
            3 => file.write(part),
            4 => {
                let (one, other) = part.split_at_mut(length as usize / 2);
                file.read_vectored(&mut [IoSliceMut::new(one), IoSliceMut::new(other)])
            }
            _ => {
                let (one, other) = part.split_at(length as usize / 3);
                file.write_vectored(&[IoSlice::new(one), IoSlice::new(other)])
            }
        };
        log.push((position, done.expect("a transfer") as u64, kind % 2 == 1));
    }
    // At the end of the file nothing is read.
    assert_eq!(file.read_at(&mut bytes, FILE_BYTES).expect("read"), 0);
    file.sync_all().expect("synced");
    file.sync_data().expect("synced");
    let mut append = OpenOptions::new();
    let append = append.append(true).open(folder.join("data"));
    let mut append = append.expect("a file");
    append.write_all(&bytes[..5000]).expect("written");
    log.push((FILE_BYTES, 5000, true));
    log
}

/// Runs `work` in the process that a test has started: between a line from the test and the file `done`, which has what
/// `work` returns.
fn work_on_request(work: fn(&Path) -> Vec<(u64, u64, bool)>) {
    let Some(folder) = folder() else { return };
    common::wait_for_start();
    let log = work(&folder);
    let lines = log.iter().map(|(position, bytes, write)| format!("{position} {bytes} {write}\n"));
    fs::write(folder.join("log"), lines.collect::<String>()).expect("written");
    fs::rename(folder.join("log"), folder.join("done")).expect("renamed");
    common::wait_for_line();
}

fn logged(folder: &Path) -> Vec<(u64, u64, bool)> {
    let text = fs::read_to_string(folder.join("done")).expect("a log");
    let lines = text.lines().map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields[at].parse().expect("a number");
        (number(0), number(1), fields[2] == "true")
    });
    lines.collect()
}

#[test]
fn child_that_transfers() {
    work_on_request(transfer);
}

#[test]
fn captured_references_are_those_of_the_program() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    data(folder.path());
    let mut child = OwnedChild::of_test("child_that_transfers", folder.path());
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    let done = folder.path().join("done");
    let (recorder, report) = capture_work(&mut source, cost, RING, &mut || child.send("start"), &|| done.exists());
    assert_eq!(report.lost, 0);
    assert!(source.is_alive() && source.processor_time().is_some());
    let counts = source.counts();
    let log = logged(folder.path());
    // The log itself is written too.
    let writes = log.iter().filter(|transfer| transfer.2).count() as u64;
    assert!(counts.reads >= log.len() as u64 - writes && counts.writes >= writes);
    assert_eq!((counts.syncs, counts.unseen), (2, 0));
    let trace = source.trace(recorder, true);
    assert!(trace.below_cache);
    let (found, facts) = written(&trace, "/data");
    let expected = references(&log);
    println!("{} references", expected.len());
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    assert_eq!(facts["page_size"], PAGE);
    child.end();
}

/// Starts programs that start programs, and reads a part of the file in each.
fn start_readers(folder: &Path) -> Vec<(u64, u64, bool)> {
    let file = folder.join("data");
    let mut log = Vec::new();
    for (skip, levels) in [(0, 0), (100, 1), (200, 2)] {
        let mut command = format!("dd if={} bs=4096 count=50 skip={skip} of=/dev/null 2>/dev/null", file.display());
        for _ in 0..levels {
            // Without the second command the shell would not start a process.
            command = format!("sh -c '{}'; true", command.replace('\'', "'\\''"));
        }
        let status = Command::new("sh").args(["-c", &command]).status();
        assert!(status.expect("a shell").success());
        log.extend((skip..skip + 50).map(|page| (page * PAGE, PAGE, false)));
    }
    log
}

#[test]
fn child_that_starts_readers() {
    work_on_request(start_readers);
}

#[test]
fn processes_that_the_program_starts_are_captured_too() {
    let Some(cost) = cost() else { return };
    for follow in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        data(folder.path());
        let mut child = OwnedChild::of_test("child_that_starts_readers", folder.path());
        child.wait_for("ready");
        let mut source = ProcessSource::open(child.pid(), PAGE, follow).expect("a source");
        let done = folder.path().join("done");
        let (recorder, report) = capture_work(&mut source, cost, RING, &mut || child.send("start"), &|| done.exists());
        assert_eq!(report.lost, 0);
        // The readers may end before their files are looked at; those of the same number as this one are its.
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(folder.path().join("data")).expect("a file"));
        let trace = source.trace(recorder, false);
        let (found, _) = written(&trace, &format!(":{inode}"));
        let expected = match follow {
            true => references(&logged(folder.path())),
            false => Vec::new(),
        };
        assert_eq!(found, expected);
        child.end();
    }
}

/// Reads and writes by io_uring.
#[allow(unsafe_code)]
fn transfer_by_ring(folder: &Path) -> Vec<(u64, u64, bool)> {
    use io_uring::{IoUring, opcode, types::Fd};
    let file = data(folder);
    let mut ring = match IoUring::new(8) {
        Ok(ring) => ring,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped: io_uring: {error}");
            return Vec::new();
        }
    };
    let (mut random, mut log) = (TestRandom(6), Vec::new());
    let mut bytes = vec![7u8; 40_000];
    let descriptor = Fd(file.as_raw_fd());
    for _ in 0..1000 {
        let position = random.below(FILE_BYTES - 40_000);
        let length = 3 + random.below(20_000) as usize;
        let (one, other) = bytes[..length].split_at_mut(length / 3);
        let parts = [one, other].map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
        let start = parts[0].iov_base.cast::<u8>();
        let kind = random.below(4);
        let entry = match kind {
            0 => opcode::Read::new(descriptor, start, length as u32).offset(position).build(),
            1 => opcode::Write::new(descriptor, start, length as u32).offset(position).build(),
            2 => opcode::Readv::new(descriptor, parts.as_ptr(), 2).offset(position).build(),
            _ => opcode::Writev::new(descriptor, parts.as_ptr(), 2).offset(position).build(),
        };
        // SAFETY: the buffer and the parts live until the completion below.
        unsafe { ring.submission().push(&entry) }.expect("room");
        ring.submit_and_wait(1).expect("submitted");
        let completion = ring.completion().next().expect("a completion");
        assert_eq!(completion.result(), length as i32);
        log.push((position, length as u64, kind % 2 == 1));
    }
    let entry = opcode::Fsync::new(descriptor).build();
    // SAFETY: the request has no buffer.
    unsafe { ring.submission().push(&entry) }.expect("room");
    ring.submit_and_wait(1).expect("submitted");
    // The capture finds its name while it is open.
    std::mem::forget(file);
    log
}

#[test]
fn child_that_transfers_by_ring() {
    work_on_request(transfer_by_ring);
}

#[test]
fn requests_of_io_uring_are_captured() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    data(folder.path());
    let mut child = OwnedChild::of_test("child_that_transfers_by_ring", folder.path());
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    if source.description().contains("does not show") {
        let _ = writeln!(std::io::stderr(), "skipped: {}", source.description());
        return;
    }
    let done = folder.path().join("done");
    let (recorder, report) = capture_work(&mut source, cost, RING, &mut || child.send("start"), &|| done.exists());
    assert_eq!(report.lost, 0);
    let log = logged(folder.path());
    if log.is_empty() {
        return;
    }
    assert_eq!(source.counts().syncs, 1);
    let (found, _) = written(&source.trace(recorder, true), "/data");
    let expected = references(&log);
    println!("{} references by io_uring", expected.len());
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    child.end();
}

/// The files of `write_anew`, and the pages of each.
const FILES: u64 = 40;
const PAGES: u64 = 100;

/// Writes files, reads them and deletes them, as stores of sorted runs do: the file system gives the number of each to the next one.
/// Then it transfers by calls whose bytes are not seen.
#[allow(unsafe_code)]
fn write_anew(folder: &Path) -> Vec<(u64, u64, bool)> {
    let page = vec![7u8; PAGE as usize];
    for number in 0..FILES {
        let path = folder.join(format!("run-{number}"));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
        for _ in 0..PAGES {
            file.write_all(&page).expect("written");
        }
        for at in 0..PAGES {
            file.read_exact_at(&mut page.clone(), at * PAGE).expect("read");
        }
        // Some are open when the capture looks.
        if number % 10 == 9 {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        fs::remove_file(&path).expect("deleted");
    }
    let (from, to) = (data(folder), File::create(folder.join("to")).expect("a file"));
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let mut pipe = [0; 2];
    // SAFETY: the pointers are to a local array, or null, and the descriptors are open.
    let done = unsafe {
        [
            i64::from(libc::pipe(pipe.as_mut_ptr())) + 1,
            libc::sendfile(to, from, std::ptr::null_mut(), 4096) as i64,
            libc::copy_file_range(from, std::ptr::null_mut(), to, std::ptr::null_mut(), 4096, 0) as i64,
            libc::splice(from, std::ptr::null_mut(), pipe[1], std::ptr::null_mut(), 4096, 0) as i64,
            libc::splice(pipe[0], std::ptr::null_mut(), to, std::ptr::null_mut(), 4096, 0) as i64,
        ]
    };
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, which stays to the end of the process.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), PAGE as usize, rights, libc::MAP_SHARED, from, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    Vec::new()
}

#[test]
fn child_that_writes_anew() {
    work_on_request(write_anew);
}

/// Captures the process that writes files anew, and checks that each is one of its own.
fn capture_files_of_one_number(folder: &Path) -> Option<(ProcessSource, CaptureBuffer)> {
    let cost = cost()?;
    data(folder);
    let mut child = OwnedChild::of_test("child_that_writes_anew", folder);
    child.wait_for("ready");
    let mut source = ProcessSource::open(child.pid(), PAGE, false).expect("a source");
    let done = folder.join("done");
    let (recorder, report) = capture_work(&mut source, cost, RING, &mut || child.send("start"), &|| done.exists());
    assert_eq!(report.lost, 0);
    let is_run = |it: &&ebbpool_capture::CapturedObject| (it.pages, it.writes, it.references) == (PAGES, PAGES, 2 * PAGES);
    assert_eq!(recorder.objects().iter().filter(is_run).count() as u64, FILES, "{:?}", recorder.objects());
    assert_eq!((source.counts().unseen, source.counts().mapped), (4, 1));
    child.end();
    Some((source, recorder))
}

/// An overlay gives files no generations, and its numbers are those of its layers.
#[test]
fn files_of_an_overlay_are_different_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("a folder");
        path
    });
    let layers = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mount = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(&merged).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !mount("mount", &["-t", "overlay", "overlay", "-o", &layers]) {
        let _ = writeln!(std::io::stderr(), "skipped: this process may mount nothing");
        return;
    }
    let captured = std::panic::catch_unwind(|| capture_files_of_one_number(&merged).is_some());
    assert!(mount("umount", &[]), "the overlay cannot be unmounted");
    let _ = captured.expect("each file is one");
}

#[test]
fn files_of_one_number_are_different_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((source, recorder)) = capture_files_of_one_number(folder.path()) else { return };
    let trace = source.trace(recorder, true);
    let names: Vec<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len());
    // A file that was open when the capture looked has its name, and no other one has it.
    for (number, name) in names.iter().enumerate().filter_map(|(at, name)| Some((at, name.split_once("/run-")?.1))) {
        assert_eq!(trace.objects[number].pages, PAGES, "{name}");
    }
    assert!(names.iter().any(|name| name.contains("/run-")), "{names:?}");
}

#[test]
fn child_that_makes_system_calls() {
    work_on_request(|_| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            for _ in 0..1000 {
                let _ = rustix::process::getppid();
            }
        }
        Vec::new()
    });
}

/// Where programs run at the ends of system calls, all processes pay; at the ends of functions for files these calls do not.
#[test]
fn what_other_processes_pay_is_stated_by_process() {
    let Some(cost) = cost() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [mut idle, mut busy] = ["one", "other"].map(|name| {
        let own = folder.path().join(name);
        fs::create_dir(&own).expect("a folder");
        let mut child = OwnedChild::of_test("child_that_makes_system_calls", &own);
        child.wait_for("ready");
        child
    });
    let mut source = ProcessSource::open(idle.pid(), PAGE, false).expect("a source");
    let done = folder.path().join("other/done");
    let all_pay = source.description().contains("all processes pay");
    let (_, report) = capture_work(&mut source, cost, RING, &mut || busy.send("start"), &|| done.exists());
    let found = report.others.iter().find(|other| other.process == busy.pid());
    // A system call that does nothing takes less than what it is slowed down by; on a busy machine it takes longer.
    assert_eq!(found.is_some_and(|other| other.overhead > 0.05), all_pay, "{:?}", report.others);
    assert!(report.others.iter().all(|other| other.process != idle.pid()));
    busy.end();
    idle.send("start");
    idle.end();
}

#[test]
fn wrong_requests_are_refused() {
    let own = std::process::id() as i32;
    for size in [0, 1000, 3 << 12] {
        assert!(ProcessSource::open(own, size, false).is_err());
    }
    assert!(ProcessSource::open(i32::MAX, PAGE, false).is_err());
    assert!(ProcessSource::open(-1, PAGE, true).is_err());
}
