//! Results of `compare` that are kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::harness::{Ebbpool, errors, failed, interrupted, wait_until};

/// Standard output, and how many results were known from before.
fn answered(ebbpool: &Ebbpool, args: &[&str]) -> (String, Option<String>) {
    let output = ebbpool.run(args);
    let notes = errors(&output);
    assert!(output.status.success(), "{notes}");
    let known = notes.lines().find(|line| line.contains("known"));
    let number = known.and_then(|line| line.split(' ').find(|word| word.parse::<u64>().is_ok()));
    (text(&output.stdout), number.map(String::from))
}

fn compare(ebbpool: &Ebbpool, trace: &str, more: &[&str]) -> (String, Option<String>) {
    let args = ["compare", trace, "--frames", "5,10%", "--asymmetry", "1,32"];
    answered(ebbpool, &[&args[..], more].concat())
}

/// As `compare`, with results as JSON and no asymmetries of its own.
fn charged(ebbpool: &Ebbpool, trace: &str, charge: &[&str]) -> (String, Option<String>) {
    let args = ["compare", trace, "--frames", "5,10%", "--format", "json"];
    let policies = ["--policies", "lru,casa"];
    answered(ebbpool, &[&args[..], &policies, charge].concat())
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

fn trace(ebbpool: &Ebbpool, name: &str, references: u64) -> String {
    let lines = (0..references).map(|at| {
        let access = if at % 3 == 0 { 'W' } else { 'R' };
        format!("{access} {}\n", at * at % 97)
    });
    ebbpool.file(name, lines.collect::<String>())
}

#[test]
fn the_second_time_is_answered_from_the_cache() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let policies = ["--policies", "lru,casa"];
    let (first, known) = compare(&ebbpool, &file, &policies);
    assert_eq!(known, None);
    let (second, known) = compare(&ebbpool, &file, &policies);
    assert_eq!((&second, known.as_deref()), (&first, Some("8")));

    let copy = ebbpool.named("other name.txt");
    fs::copy(&file, &copy).expect("a copy");
    let (_, known) = compare(&ebbpool, &copy, &policies);
    assert_eq!(known.as_deref(), Some("8"), "what counts is what it holds");

    let more = ["--policies", "lru,casa,fifo"];
    assert_eq!(compare(&ebbpool, &file, &more).1.as_deref(), Some("8"));

    let (anew, known) = compare(&ebbpool, &file, &["--policies", "lru,casa", "--no-cache"]);
    assert_eq!((&anew, known), (&first, None));
}

#[test]
fn other_inputs_have_other_results() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let of = |more: &[&str]| {
        let mut args = vec!["--policies", "lru,casa"];
        args.extend(more);
        compare(&ebbpool, &file, &args)
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
    trace(&ebbpool, "t.txt", 5001);
    let (longer, known) = of(&[]);
    assert_eq!(known, None);
    assert_ne!(longer, plain);
}

const FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=32,page_size=2048";

#[test]
fn results_of_devices_and_changes_are_kept() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
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
        let (first, known) = charged(&ebbpool, &file, charge);
        assert_eq!(known, None, "{charge:?}");
        let (second, known) = charged(&ebbpool, &file, charge);
        assert_eq!(known.as_deref(), Some(number), "{charge:?}");
        assert_eq!(second, first, "{charge:?}, to the last digit");
        let (anew, known) = charged(&ebbpool, &file, &[charge, &["--no-cache"]].concat());
        assert_eq!((anew, known), (first.clone(), None));
        all.push(first);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), charges.len());
    // One of the list is what it is alone.
    let (_, known) = charged(&ebbpool, &file, &["--asymmetry", "rm2"]);
    assert_eq!(known.as_deref(), Some("4"));
}

#[test]
fn what_a_file_of_figures_holds_counts_and_not_its_name() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let profile = ebbpool.stdout(&["devices", "flash-136", "--format", "toml"]);
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
        let path = ebbpool.path(name);
        let value = format!("{before}{}{after}", path.display());
        fs::write(&path, one).expect("a file");
        let (first, known) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!(known, None, "{name}");
        fs::write(&path, other).expect("a file");
        let (second, known) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!(known, None, "{name} has changed");
        assert_ne!(first, second, "{name}");
        fs::write(&path, one).expect("a file");
        let (third, known) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!((third, known.as_deref()), (first, Some("4")), "{name}");
    }
}

#[test]
fn a_damaged_cache_or_none_at_all_does_no_harm() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let (first, _) = compare(&ebbpool, &file, &[]);
    for path in files(ebbpool.results()) {
        fs::write(path, "{\"counts\":").expect("damage");
    }
    assert_eq!(compare(&ebbpool, &file, &[]), (first.clone(), None));
    let nowhere = ebbpool.storing_in(ebbpool.path("t.txt/below-a-file"));
    assert_eq!(compare(&nowhere, &file, &[]), (first, None));
}

#[test]
fn notes_on_bad_lines_are_kept_with_the_results() {
    let ebbpool = Ebbpool::with_no_results();
    ebbpool.file("t.txt", "R 1\nnonsense\nW 2\nR 1\n");
    for _ in 0..2 {
        let output = ebbpool.run(&["compare", "t.txt", "--skip-bad-lines", "1"]);
        assert!(errors(&output).contains("bad line"));
    }
}

/// The command, interrupted when it has stored its first result.
#[cfg(unix)]
fn interrupted_on_its_way(ebbpool: &Ebbpool, args: &[&str]) -> Output {
    let child = ebbpool.command(args).spawn().expect("ebbpool starts");
    // The size of the trace, facts and notes are three files.
    wait_until("a result is stored", || files(ebbpool.results()).len() > 3);
    interrupted(child)
}

#[test]
#[cfg(unix)]
fn an_interruption_leaves_the_finished_results_of_a_device() {
    let ebbpool = Ebbpool::with_no_results();
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
    let output = interrupted_on_its_way(&ebbpool, &args);
    failed(&output, 1, &["interrupted:"]);
    let table = text(&output.stdout);
    assert!(table.contains("so far, on this device"), "{table}");
    let again = ebbpool.run(&args);
    assert!(again.status.success());
    let notes = errors(&again);
    assert!(
        notes.contains("of 12 results are known from before"),
        "{notes}"
    );
}

#[test]
#[cfg(unix)]
fn an_interruption_leaves_the_finished_results() {
    let ebbpool = Ebbpool::with_no_results();
    let args = [
        "compare",
        "zipf:pages=2000,refs=25000000,read-alpha=1",
        "--frames=10%,20%",
        "--asymmetry=32",
        "--threads=1",
    ];
    let output = interrupted_on_its_way(&ebbpool, &args);
    failed(&output, 1, &["interrupted:"]);
    let table = text(&output.stdout);
    assert!(table.lines().any(|line| line.ends_with("-")), "{table}");
    assert!(table.contains("so far, at R=32"), "{table}");
    let finished = |line: &str| line.starts_with("fifo") && line.contains('.');
    assert!(table.lines().any(finished), "{table}");
}
