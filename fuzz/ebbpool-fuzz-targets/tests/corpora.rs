//! The seeds of all fuzz targets, and mutations of them, on stable Rust. A filter runs those of one wing: `lab::`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbpool_fuzz_targets::{FuzzTarget, WINGS};

/// The seeds of a target with their names, in the order of these: `fuzz/seeds` writes the file, and says how.
fn seeds_of(wing: &str, target: &FuzzTarget) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(wing).join(format!("fuzz/{}.seeds", target.name));
    let packed = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = packed.strip_prefix(b"seeds 1\n").unwrap_or_else(|| panic!("{}: no file of seeds", path.display()));
    let mut seeds = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_first_chunk::<6>().expect("a head of six bytes");
        let name_length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, after) = after.split_at(name_length);
        let (input, after) = after.split_at(length);
        seeds.push((String::from_utf8(name.to_vec()).expect("a name in UTF-8"), input.to_vec()));
        rest = after;
    }
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
fn check(target: &FuzzTarget, from: &str, input: &[u8]) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    if let Err(cause) = outcome {
        let saved = std::env::temp_dir().join(format!("ebbpool-fault-{}", target.name));
        let saved = match fs::write(&saved, input) {
            Ok(()) => format!("the input is saved in {}", saved.display()),
            Err(error) => format!("the input could not be saved: {error}"),
        };
        eprintln!("{}, from {}: {saved}", target.name, from);
        panic::resume_unwind(cause);
    }
}

fn targets_of(wing: &str) -> &'static [FuzzTarget] {
    WINGS.iter().find(|(name, _)| *name == wing).expect("a wing with targets").1
}

fn seeds_show_no_fault(wing: &str) {
    write_into_memory();
    for target in targets_of(wing) {
        let seeds = seeds_of(wing, target);
        assert!(seeds.len() >= 3, "{} has few seeds", target.name);
        for (name, input) in seeds {
            check(target, &name, &input);
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

/// Runs mutations of a target's seeds, of each target the same in every run: all, or the first tenth of them.
fn check_mutations(wing: &str, target: &FuzzTarget, all: bool) {
    let seeds = seeds_of(wing, target);
    let mut random = MutationGenerator(0x9e37_79b9_7f4a_7c15);
    // Targets that write files or construct devices take longer.
    let mutants = match target.name {
        "text" | "u32" | "csv" | "native" | "compressed" => 300,
        "spc" | "msr" | "vscsi" | "oracle_general" | "lcs" | "fio" | "blkparse" | "lirs" | "arc" | "rocksdb" => 1000,
        "changes" | "chip" | "sqlite_files" | "device_profile" | "flash_config" | "log" | "catalog" => 1000,
        "elf" | "kernel_types" | "capture_events" | "arrow" => 3000,
        _ => 20_000,
    };
    for _ in 0..if all { mutants } else { mutants / 10 } {
        let (name, seed) = &seeds[random.below(seeds.len())];
        let (_, other) = &seeds[random.below(seeds.len())];
        let mut input = seed.clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut input, other);
        }
        // A large file finds no more than a small one, and is slower.
        input.truncate(1 << 15);
        check(target, name, &input);
    }
}

fn mutations_show_no_fault(wing: &str, all: bool) {
    write_into_memory();
    let targets = targets_of(wing);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            check_mutations(wing, target, all);
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

/// The tests of a wing.
macro_rules! wings {
    ($($wing:ident)*) => {
        $(mod $wing {
            #[test]
            fn seeds_show_no_fault() {
                super::seeds_show_no_fault(stringify!($wing));
            }

            #[test]
            fn a_tenth_of_the_mutations_shows_no_fault() {
                super::mutations_show_no_fault(stringify!($wing), false);
            }

            mod whole {
                #[test]
                fn mutations_show_no_fault() {
                    super::super::mutations_show_no_fault(stringify!($wing), true);
                }
            }
        })*

        /// The wings whose tests are here.
        const TESTED: &[&str] = &[$(stringify!($wing)),*];
    };
}

wings! { core lab database sqlite capture }

#[test]
fn each_target_has_seeds_and_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).expect("fuzz/Cargo.toml");
    let programs = manifest.split("[[bin]]\nname = \"").skip(1).map(|entry| entry.split('"').next().expect("a name"));
    let mut programs: Vec<&str> = programs.collect();
    let mut names: Vec<&str> = WINGS.iter().flat_map(|(_, targets)| *targets).map(|target| target.name).collect();
    programs.sort_unstable();
    names.sort_unstable();
    assert_eq!(programs, names, "the programs of fuzz/Cargo.toml");
    assert!(names.is_sorted_by(|one, next| one < next), "two targets have the same name");
    assert_eq!(
        manifest.matches("\npath = \"target.rs\"\n").count(),
        names.len(),
        "the source of the programs of fuzz/Cargo.toml"
    );
    let mut bytes = 0;
    assert_eq!(WINGS.iter().map(|(wing, _)| *wing).collect::<Vec<_>>(), TESTED);
    for (wing, targets) in WINGS {
        let entries = fs::read_dir(root.join(wing).join("fuzz")).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"));
        let names: BTreeSet<String> = names.filter_map(|name| name.strip_suffix(".seeds").map(String::from)).collect();
        assert_eq!(names, targets.iter().map(|target| target.name.into()).collect(), "the files of seeds of {wing}");
        for target in *targets {
            let seeds = seeds_of(wing, target);
            assert!(
                seeds.is_sorted_by(|(one, _), (next, _)| one < next),
                "the seeds of {} are in the order of names",
                target.name
            );
            bytes += seeds.iter().map(|(_, input)| input.len()).sum::<usize>();
        }
    }
    assert!(bytes < 400_000, "the seeds have {bytes} bytes; they are to be small");
}
