//! The corpora of `fuzz/corpus/`, and mutations of them, on stable Rust.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbpool_fuzz_targets::{FuzzTarget, TARGETS};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(target: &FuzzTarget) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = fuzz().join("corpus").join(target.name);
    let mut seeds: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let input = fs::read(&path).expect("a seed");
            (path, input)
        })
        .collect();
    seeds.sort();
    seeds
}

/// Makes the targets write their files to memory where there is a file system in memory: they write
/// thousands of traces and sync each.
fn write_into_memory() {
    let memory = Path::new("/dev/shm");
    if tempfile::tempfile_in(memory).is_ok() {
        // An error means that another test has already set it, to the same directory.
        let _ = tempfile::env::override_temp_dir(memory);
    }
}

/// Runs the target. A fault is reported with a file that contains the input.
fn check(target: &FuzzTarget, from: &Path, input: &[u8]) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    if let Err(cause) = outcome {
        let saved = std::env::temp_dir().join(format!("ebbpool-fault-{}", target.name));
        let saved = match fs::write(&saved, input) {
            Ok(()) => format!("the input is saved in {}", saved.display()),
            Err(error) => format!("the input could not be saved: {error}"),
        };
        eprintln!("{}, from {}: {saved}", target.name, from.display());
        panic::resume_unwind(cause);
    }
}

#[test]
fn seeds_show_no_fault() {
    write_into_memory();
    for target in TARGETS {
        let seeds = corpus(target);
        assert!(seeds.len() >= 3, "{} has few seeds", target.name);
        for (path, input) in seeds {
            check(target, &path, &input);
        }
    }
}

/// A small generator, so that the mutations are the same everywhere.
struct MutationGenerator(u64);

impl MutationGenerator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// Makes one of the changes that fuzzers make.
    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        const TOKENS: &[&str] = &[
            ":", ",", "=", "%", ".", "0", "1", "-1", "(", ")", "\n", "#", "R ", "W ", "99999999999", "18446744073709551615",
            "0.000000001%", "auto", "cluster=", "{", "}", "\"", "\0",
        ];
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() - at + 1);
        match self.below(7) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.below(256) as u8,
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let from = self.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => {
                let token = TOKENS[self.below(TOKENS.len())];
                input.splice(at..at, token.bytes());
            }
        }
    }
}

/// Runs mutations of a target's seeds: of each target the same in every run.
fn check_mutations(target: &FuzzTarget) {
    let seeds = corpus(target);
    let mut random = MutationGenerator(0x9e37_79b9_7f4a_7c15);
    // Targets that write files or construct devices take longer.
    let mutants = match target.name {
        "text" | "u32" | "csv" | "native" | "compressed" => 300,
        "spc" | "msr" | "vscsi" | "oracle_general" | "lcs" | "fio" | "blkparse" | "lirs" | "arc" | "rocksdb" => 1000,
        "changes" | "chip" | "sqlite_files" | "device_profile" | "flash_config" | "log" | "catalog" => 1000,
        "elf" | "kernel_types" | "capture_events" | "arrow" => 3000,
        _ => 20_000,
    };
    for _ in 0..mutants {
        let (path, seed) = &seeds[random.below(seeds.len())];
        let (_, other) = &seeds[random.below(seeds.len())];
        let mut input = seed.clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut input, other);
        }
        // A large file finds no more than a small one, and is slower.
        input.truncate(1 << 15);
        check(target, path, &input);
    }
}

#[test]
fn mutations_show_no_fault() {
    write_into_memory();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            check_mutations(target);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(cause) = worker.join() {
                panic::resume_unwind(cause);
            }
        }
    });
}

#[test]
fn the_files_and_corpora_are_those_of_the_targets() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.into()).collect();
    let listed = |directory: &str| -> BTreeSet<String> {
        fs::read_dir(fuzz().join(directory))
            .expect("a directory of fuzz/")
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                stem.expect("a name in UTF-8").to_string()
            })
            .collect()
    };
    assert_eq!(listed("corpus"), names);
    assert_eq!(listed("fuzz_targets"), names);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("fuzz/Cargo.toml");
    for name in &names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
    let bytes: usize = TARGETS.iter().flat_map(corpus).map(|(_, input)| input.len()).sum();
    assert!(bytes < 400_000, "the corpora have {bytes} bytes; keep seeds small");
}
