//! Tests of results that `compare` stores between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::harness::{Ebbpool, errors, failed, interrupted, wait_until};

/// Standard output, and the number of results from the store.
fn answered(ebbpool: &Ebbpool, args: &[&str]) -> (String, Option<String>) {
    let output = ebbpool.run(args);
    let notes = errors(&output);
    assert!(output.status.success(), "{notes}");
    let stored = notes.lines().find(|line| line.contains("computed before"));
    let number = stored.and_then(|line| line.split(' ').find(|word| word.parse::<u64>().is_ok()));
    (text(&output.stdout), number.map(String::from))
}

fn compare(ebbpool: &Ebbpool, trace: &str, more: &[&str]) -> (String, Option<String>) {
    let args = ["compare", trace, "--frames", "5,10%", "--asymmetry", "1,32"];
    answered(ebbpool, &[&args[..], more].concat())
}

/// As `compare`, with results as JSON and with the asymmetries or the device in `charge`.
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
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn trace(ebbpool: &Ebbpool, name: &str, references: u64) -> String {
    let lines = (0..references).map(|at| {
        let access = if at % 3 == 0 { 'W' } else { 'R' };
        format!("{access} {}\n", at * at % 97)
    });
    ebbpool.file(name, lines.collect::<String>())
}

#[test]
fn a_second_run_takes_its_results_from_the_store() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let policies = ["--policies", "lru,casa"];
    let (first, stored) = compare(&ebbpool, &file, &policies);
    assert_eq!(stored, None);
    let (second, stored) = compare(&ebbpool, &file, &policies);
    assert_eq!((&second, stored.as_deref()), (&first, Some("8")));

    let copy = ebbpool.named("other name.txt");
    fs::copy(&file, &copy).expect("a copy");
    let (_, stored) = compare(&ebbpool, &copy, &policies);
    assert_eq!(stored.as_deref(), Some("8"), "the content of the trace counts, not its name");

    let more = ["--policies", "lru,casa,fifo"];
    assert_eq!(compare(&ebbpool, &file, &more).1.as_deref(), Some("8"));

    let (computed, stored) = compare(&ebbpool, &file, &["--policies", "lru,casa", "--no-cache"]);
    assert_eq!((&computed, stored), (&first, None));
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
    for other in [["--limit", "4000"], ["--warmup", "20%"], ["--at-end", "free"], ["--cluster-size", "2"]] {
        let (results, stored) = of(&other);
        assert_eq!(stored, None, "{other:?}");
        // Cluster switches are not in the table.
        assert!(results != plain || other[0] == "--cluster-size", "{other:?}");
    }
    trace(&ebbpool, "t.txt", 5001);
    let (longer, stored) = of(&[]);
    assert_eq!(stored, None);
    assert_ne!(longer, plain);
}

const FLASH: &str = "flash:slc-mt29f4g08aaa,blocks=32,page_size=2048";

#[test]
fn results_of_devices_and_changing_asymmetries_are_stored() {
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
        let (first, stored) = charged(&ebbpool, &file, charge);
        assert_eq!(stored, None, "{charge:?}");
        let (second, stored) = charged(&ebbpool, &file, charge);
        assert_eq!(stored.as_deref(), Some(number), "{charge:?}");
        assert_eq!(second, first, "{charge:?}, to the last digit");
        let (computed, stored) = charged(&ebbpool, &file, &[charge, &["--no-cache"]].concat());
        assert_eq!((computed, stored), (first.clone(), None));
        all.push(first);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), charges.len());
    // A single asymmetry of the list has the same result as in the list.
    let (_, stored) = charged(&ebbpool, &file, &["--asymmetry", "rm2"]);
    assert_eq!(stored.as_deref(), Some("4"));
}

#[test]
fn the_content_of_a_profile_counts_and_not_its_name() {
    let ebbpool = Ebbpool::with_no_results();
    let file = trace(&ebbpool, "t.txt", 5000);
    let profile = ebbpool.stdout(&["devices", "flash-136", "--format", "toml"]);
    let faster = profile.replacen("value = 1469", "value = 1468", 1);
    let chips = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/ebbpool-device/src/flash/chips.toml");
    let chips = fs::read_to_string(chips).expect("the chips");
    let chip = chips.split("[[chip]]").find(|chip| chip.contains("\"slc-mt29f4g08aaa\"")).expect("the chip").to_string();
    let slower = chip.replacen("program_us = [220", "program_us = [221", 1);
    let changes = ("0,1\n2000,50\n", "0,1\n2000,51\n");
    for (name, flag, before, after, [one, other]) in [
        ("p.toml", "--device", "", "", [&profile, &faster]),
        ("c.toml", "--device", "flash:", ",blocks=32,page_size=2048", [&chip, &slower]),
        ("c.csv", "--asymmetry", "file:", "", [&changes.0.into(), &changes.1.into()]),
    ] {
        assert_ne!(one, other, "{name}");
        let path = ebbpool.path(name);
        let value = format!("{before}{}{after}", path.display());
        fs::write(&path, one).expect("a file");
        let (first, stored) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!(stored, None, "{name}");
        fs::write(&path, other).expect("a file");
        let (second, stored) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!(stored, None, "{name} has changed");
        assert_ne!(first, second, "{name}");
        fs::write(&path, one).expect("a file");
        let (third, stored) = charged(&ebbpool, &file, &[flag, &value]);
        assert_eq!((third, stored.as_deref()), (first, Some("4")), "{name}");
    }
}

#[test]
fn a_damaged_or_missing_store_does_no_harm() {
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
fn notes_on_bad_lines_are_stored_with_the_results() {
    let ebbpool = Ebbpool::with_no_results();
    ebbpool.file("t.txt", "R 1\nnonsense\nW 2\nR 1\n");
    for _ in 0..2 {
        let output = ebbpool.run(&["compare", "t.txt", "--skip-bad-lines", "1"]);
        assert!(errors(&output).contains("bad line"));
    }
    // The same bytes, and so the same results, under another name.
    ebbpool.file("other.txt", "R 1\nnonsense\nW 2\nR 1\n");
    let output = ebbpool.run(&["compare", "other.txt", "--skip-bad-lines", "1"]);
    let notes = errors(&output);
    assert!(notes.contains("bad line: other.txt, line 2"), "{notes}");
    assert!(!notes.contains(" t.txt"), "{notes}");
}

/// Runs the command and interrupts it when it has stored its first result.
#[cfg(unix)]
fn interrupted_after_a_result(ebbpool: &Ebbpool, args: &[&str]) -> Output {
    let child = ebbpool.command(args).spawn().expect("ebbpool starts");
    // The store first has three files: the size of the trace, its facts and notes.
    wait_until("a result is stored", || files(ebbpool.results()).len() > 3);
    interrupted(child)
}

#[test]
#[cfg(unix)]
fn finished_results_of_a_device_survive_an_interruption() {
    let ebbpool = Ebbpool::with_no_results();
    let device = String::from("flash:slc-mt29f4g08aaa,blocks=256,precondition=full");
    let args = [
        "compare", "zipf:pages=9000,refs=1500000,read-alpha=1,write=0.5", "--frames=10%,20%,30%", "--device", &device,
        "--policies=lru,fifo,clock,cflru", "--threads=1",
    ];
    let output = interrupted_after_a_result(&ebbpool, &args);
    failed(&output, 130, &["interrupted:"]);
    let table = text(&output.stdout);
    assert!(table.contains("so far, on this device"), "{table}");
    let again = ebbpool.run(&args);
    assert!(again.status.success());
    let notes = errors(&again);
    assert!(notes.contains("of 12 results were computed before"), "{notes}");
}

#[test]
#[cfg(unix)]
fn finished_results_survive_an_interruption() {
    let ebbpool = Ebbpool::with_no_results();
    let args = ["compare", "zipf:pages=2000,refs=25000000,read-alpha=1", "--frames=10%,20%", "--asymmetry=32", "--threads=1"];
    let output = interrupted_after_a_result(&ebbpool, &args);
    failed(&output, 130, &["interrupted:"]);
    let table = text(&output.stdout);
    assert!(table.lines().any(|line| line.ends_with("-")), "{table}");
    assert!(table.contains("so far, at R=32"), "{table}");
    let finished = |line: &str| line.starts_with("fifo") && line.contains('.');
    assert!(table.lines().any(finished), "{table}");
}
