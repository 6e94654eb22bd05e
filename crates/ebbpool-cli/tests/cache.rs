//! Results of `compare` that are kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

fn command(cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebbpool"));
    command.env("EBBPOOL_CACHE", cache).args(args);
    command
}

/// Standard output, and how many results came from the cache.
fn compare(cache: &Path, trace: &str, more: &[&str]) -> (String, Option<String>) {
    let mut args = vec!["compare", trace, "--frames", "5,10%", "--asymmetry", "1,32"];
    args.extend(more);
    let output = command(cache, &args).output().expect("ebbpool starts");
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{notes}");
    let known = notes.lines().find(|line| line.contains("known"));
    let number = known.and_then(|line| {
        let mut words = line.split(' ');
        words.find(|word| word.parse::<u64>().is_ok())
    });
    (text(&output.stdout), number.map(String::from))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn trace(directory: &TempDir, name: &str, references: u64) -> String {
    let path = directory.path().join(name);
    let lines = (0..references).map(|at| {
        let access = if at % 3 == 0 { 'W' } else { 'R' };
        format!("{access} {}\n", at * at % 97)
    });
    fs::write(&path, lines.collect::<String>()).expect("a trace is written");
    path.to_str().expect("a path in UTF-8").into()
}

#[test]
fn the_second_time_is_answered_from_the_cache() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let file = trace(&directory, "t.txt", 5000);
    let policies = ["--policies", "lru,casa"];
    let (first, known) = compare(&cache, &file, &policies);
    assert_eq!(known, None);
    let (second, known) = compare(&cache, &file, &policies);
    assert_eq!((&second, known.as_deref()), (&first, Some("8")));

    let copy = directory.path().join("other name.txt");
    fs::copy(&file, &copy).expect("a copy");
    let (_, known) = compare(&cache, copy.to_str().expect("UTF-8"), &policies);
    assert_eq!(known.as_deref(), Some("8"), "what counts is what it holds");

    let more = ["--policies", "lru,casa,fifo"];
    assert_eq!(compare(&cache, &file, &more).1.as_deref(), Some("8"));

    let (anew, known) = compare(&cache, &file, &["--policies", "lru,casa", "--no-cache"]);
    assert_eq!((&anew, known), (&first, None));
}

#[test]
fn other_inputs_have_other_results() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let file = trace(&directory, "t.txt", 5000);
    let of = |more: &[&str]| {
        let mut args = vec!["--policies", "lru,casa"];
        args.extend(more);
        compare(&cache, &file, &args)
    };
    let (plain, _) = of(&[]);
    for other in [
        ["--limit", "4000"],
        ["--warmup", "20%"],
        ["--at-end", "flush"],
        ["--cluster-size", "2"],
    ] {
        let (results, known) = of(&other);
        assert_eq!(known, None, "{other:?}");
        // Cluster switches are not in the table.
        assert!(
            results != plain || other[0] == "--cluster-size",
            "{other:?}"
        );
    }
    trace(&directory, "t.txt", 5001);
    let (longer, known) = of(&[]);
    assert_eq!(known, None);
    assert_ne!(longer, plain);
}

/// As `compare`, with results as JSON and no asymmetries of its own.
fn charged(cache: &Path, trace: &str, charge: &[&str]) -> (String, Option<String>) {
    let mut args = vec!["compare", trace, "--frames", "5,10%", "--format", "json"];
    args.extend(["--policies", "lru,casa"]);
    args.extend(charge);
    let output = command(cache, &args).output().expect("ebbpool starts");
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{notes}");
    let known = notes.lines().find(|line| line.contains("known"));
    let number = known.and_then(|line| line.split(' ').find(|word| word.parse::<u64>().is_ok()));
    (text(&output.stdout), number.map(String::from))
}

const FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=32,page_size=2048";

#[test]
fn results_of_devices_and_changes_are_kept() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let file = trace(&directory, "t.txt", 5000);
    let steady = format!("{FLASH},precondition=full");
    let charges: [(&[&str], &str); 5] = [
        (&["--device", "flash-136"], "4"),
        (&["--device", "emmc-5.1"], "4"),
        (&["--device", FLASH], "4"),
        (&["--device", &steady], "4"),
        (&["--asymmetry", "rm1:base=25,epoch=700,32,rm2"], "12"),
    ];
    let mut all = Vec::new();
    for (charge, number) in charges {
        let (first, known) = charged(&cache, &file, charge);
        assert_eq!(known, None, "{charge:?}");
        let (second, known) = charged(&cache, &file, charge);
        assert_eq!(known.as_deref(), Some(number), "{charge:?}");
        assert_eq!(second, first, "{charge:?}, to the last digit");
        let (anew, known) = charged(&cache, &file, &[charge, &["--no-cache"]].concat());
        assert_eq!((anew, known), (first.clone(), None));
        all.push(first);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), charges.len());
    // One of the list is what it is alone.
    let (_, known) = charged(&cache, &file, &["--asymmetry", "rm2"]);
    assert_eq!(known.as_deref(), Some("4"));
}

#[test]
fn what_a_file_of_figures_holds_counts_and_not_its_name() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let file = trace(&directory, "t.txt", 5000);
    let printed = |name: &str| {
        let args = ["devices", name, "--format", "toml"];
        let output = command(&cache, &args).output().expect("ebbpool starts");
        text(&output.stdout)
    };
    let profile = printed("flash-136");
    let faster = profile.replacen("value = 1469", "value = 1468", 1);
    let chips =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../ebbpool-device/src/flash/chips.toml");
    let chips = fs::read_to_string(chips).expect("the chips");
    let chip = chips
        .split("[[chip]]")
        .find(|chip| chip.contains("\"slc-mt29f4g08aaa\""))
        .expect("the chip")
        .to_string();
    let slower = chip.replacen("program_us = [220", "program_us = [221", 1);
    let changes = ("0,1\n2000,50\n", "0,1\n2000,51\n");
    for (name, flag, before, after, [one, other]) in [
        ("p.toml", "--device", "", "", [&profile, &faster]),
        (
            "c.toml",
            "--device",
            "flash:",
            ",blocks=32,page_size=2048",
            [&chip, &slower],
        ),
        (
            "c.csv",
            "--asymmetry",
            "file:",
            "",
            [&changes.0.into(), &changes.1.into()],
        ),
    ] {
        assert_ne!(one, other, "{name}");
        let path = directory.path().join(name);
        let value = format!("{before}{}{after}", path.display());
        fs::write(&path, one).expect("a file");
        let (first, known) = charged(&cache, &file, &[flag, &value]);
        assert_eq!(known, None, "{name}");
        fs::write(&path, other).expect("a file");
        let (second, known) = charged(&cache, &file, &[flag, &value]);
        assert_eq!(known, None, "{name} has changed");
        assert_ne!(first, second, "{name}");
        fs::write(&path, one).expect("a file");
        let (third, known) = charged(&cache, &file, &[flag, &value]);
        assert_eq!((third, known.as_deref()), (first, Some("4")), "{name}");
    }
}

#[test]
fn a_damaged_cache_or_none_at_all_does_no_harm() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let file = trace(&directory, "t.txt", 5000);
    let (first, _) = compare(&cache, &file, &[]);
    for path in files(&cache) {
        fs::write(path, "{\"counts\":").expect("damage");
    }
    assert_eq!(compare(&cache, &file, &[]), (first.clone(), None));
    let nowhere = directory.path().join("t.txt/below-a-file");
    assert_eq!(compare(&nowhere, &file, &[]), (first, None));
}

#[test]
fn notes_on_bad_lines_are_kept_with_the_results() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let path = directory.path().join("t.txt");
    fs::write(&path, "R 1\nnonsense\nW 2\nR 1\n").expect("a trace");
    let args = [
        "compare",
        path.to_str().expect("UTF-8"),
        "--skip-bad-lines",
        "1",
    ];
    for _ in 0..2 {
        let output = command(&cache, &args).output().expect("ebbpool starts");
        assert!(text(&output.stderr).contains("bad line"));
    }
}

fn interrupted(cache: &Path, args: &[&str]) -> Output {
    let mut child = command(cache, args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ebbpool starts");
    let start = Instant::now();
    // The size of the trace, facts and notes are three files.
    while files(cache).len() <= 3 && start.elapsed() < Duration::from_secs(120) {
        sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill starts").success());
    child.wait().expect("ebbpool ends");
    child.wait_with_output().expect("its output")
}

#[test]
#[cfg(unix)]
fn an_interruption_leaves_the_finished_results_of_a_device() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let device = String::from("flash:slc-mt29f4g08aaa,blocks=256,precondition=full");
    let args = [
        "compare",
        "zipf:pages=9000,refs=1500000,read-alpha=1,write=0.5",
        "--frames=10%,20%,30%",
        "--device",
        &device,
        "--policies=lru,fifo,clock,cflru",
        "--threads=1",
    ];
    let output = interrupted(&cache, &args);
    let (table, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("interrupted:"), "{error}");
    assert!(table.contains("so far, on this device"), "{table}");
    let again = command(&cache, &args).output().expect("ebbpool starts");
    assert!(again.status.success());
    let notes = text(&again.stderr);
    assert!(
        notes.contains("of 12 results are known from before"),
        "{notes}"
    );
}

#[test]
#[cfg(unix)]
fn an_interruption_leaves_the_finished_results() {
    let directory = TempDir::new().expect("a directory");
    let cache = directory.path().join("cache");
    let args = [
        "compare",
        "zipf:pages=2000,refs=25000000,read-alpha=1",
        "--frames=10%,20%",
        "--asymmetry=32",
        "--threads=1",
    ];
    let output = interrupted(&cache, &args);
    let (table, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("interrupted:"), "{error}");
    assert!(table.lines().any(|line| line.ends_with("-")), "{table}");
    assert!(table.contains("so far, at R=32"), "{table}");
    let finished = |line: &str| line.starts_with("fifo") && line.contains('.');
    assert!(table.lines().any(finished), "{table}");
}
