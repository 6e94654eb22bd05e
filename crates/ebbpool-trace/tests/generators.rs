//! Generated traces: the same bytes for ever, and the distributions promised.

mod common;

use common::read_from;
use ebbpool_trace::{Batch, Source, generators};

fn generate(spec: &str) -> Batch {
    let source = Source::parse(spec, None).unwrap();
    read_from(&source, 1000).unwrap()
}

/// FNV-1a over page (little endian) and write of every reference.
fn checksum(batch: &Batch) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for (page, write) in batch.iter() {
        for byte in page.to_le_bytes().into_iter().chain([u8::from(write)]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    hash
}

/// These may never change: results name a trace by its spec. `data/generators.py`,
/// a program of its own, prints the same numbers.
#[test]
fn the_bytes_are_pinned() {
    for (spec, expected) in [
        ("zipf", 0x9E01_44FE_4C66_BE72),
        (
            "zipf:pages=50000,refs=500000,read-alpha=0.4,write-alpha=1.2,write=0.3,seed=1",
            0x87B3_BC96_FC5D_3601,
        ),
        (
            "zipf:pages=1000,refs=100000,read-alpha=0.99,shared=true,seed=42",
            0xACB7_97BB_4DDC_D228,
        ),
        (
            "zipf:pages=1000,refs=100000,read-alpha=0,write-alpha=2.5,shared=true",
            0x89F3_163C_CA09_B55A,
        ),
        ("uniform", 0xC671_FD7C_0A7A_CB48),
        (
            "uniform:pages=18446744073709551615,refs=1000,write=0.005,seed=7",
            0x05A4_9575_83D2_B558,
        ),
    ] {
        let found = checksum(&generate(spec));
        assert_eq!(found, expected, "{spec}: {found:#018X}");
    }
}

#[test]
fn what_a_generator_says_about_itself() {
    let spec = "uniform:pages=77,refs=5";
    let source = Source::parse(spec, None).unwrap();
    assert_eq!(source.label(), spec);
    let reader = source.open().unwrap();
    assert_eq!(reader.references(), Some(5));
    assert_eq!(reader.metadata().name.as_deref(), Some(spec));
    assert_eq!(reader.metadata().database_pages, Some(77));
    assert_eq!(reader.metadata().page_size, None);
    assert!(generate("uniform:refs=0").is_empty());
    assert_eq!(generate("zipf:pages=1,refs=3").pages, [0, 0, 0]);
    // However it is cut into batches.
    let spec = Source::parse("zipf:refs=10000", None).unwrap();
    let whole = read_from(&spec, usize::MAX).unwrap();
    for max in [1, 255, 256, 257, 4096] {
        assert_eq!(read_from(&spec, max).unwrap(), whole);
    }
}

#[test]
fn defaults() {
    let full =
        "zipf:pages=10000,refs=1000000,read-alpha=1,write-alpha=1,write=0.3,shared=false,seed=1";
    assert_eq!(generate("zipf"), generate(full));
    assert_eq!(
        generate("zipf:"),
        generate("zipf: write-alpha=1.0 , read-alpha=1.00")
    );
    assert_eq!(
        generate("zipf:refs=1000,read-alpha=0.7"),
        generate("zipf:refs=1000,read-alpha=0.7,write-alpha=0.7")
    );
    assert_ne!(
        generate("zipf:refs=1000,seed=1"),
        generate("zipf:refs=1000,seed=2")
    );
    assert_eq!(
        generate("uniform"),
        generate("uniform:pages=10000,refs=1000000,write=0.3,seed=1")
    );
    let names: Vec<&str> = generators().map(|info| info.name).collect();
    assert_eq!(names, ["zipf", "uniform"]);
}

#[test]
fn bad_parameters() {
    for (spec, parts) in [
        (
            "zipf:page=5",
            &[
                "unknown parameter 'page' (did you mean 'pages'?)",
                "zipf takes pages (a whole number from 1 to 1000000000; default 10000), refs",
            ][..],
        ),
        ("zipf:skew=5", &["unknown parameter 'skew' (did you mean"]),
        (
            "zipf:pages=0",
            &["pages=0: expected a whole number from 1 to 1000000000"],
        ),
        ("zipf:pages=1000000001", &["expected a whole number from 1"]),
        ("zipf:pages=-1", &["pages=-1: expected"]),
        ("zipf:pages=", &["pages=: expected"]),
        ("zipf:pages=1e6", &["pages=1e6: expected"]),
        ("zipf:pages", &["'pages' is not of the form name=value"]),
        ("zipf:pages=1,pages=2", &["'pages' is given twice"]),
        (
            "zipf:write=1.1",
            &["write=1.1: expected a decimal number from 0 to 1"],
        ),
        ("zipf:write=-0.1", &["expected a decimal number"]),
        (
            "zipf:read-alpha=11",
            &["expected a decimal number from 0 to 10"],
        ),
        ("zipf:shared=yes", &["shared=yes: expected true or false"]),
        (
            "uniform:seed=18446744073709551616",
            &["expected a whole number from 0 to 2^64-1"],
        ),
        ("uniform:read-alpha=1", &["unknown parameter 'read-alpha'"]),
        ("uniform:pages=1\n2", &["pages=1\\n2: expected"]),
    ] {
        let error = Source::parse(spec, None).unwrap_err();
        assert!(error.is_usage());
        let message = error.to_string();
        assert!(!message.contains('\n'));
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_file_of_that_name_wins() {
    // The current directory of tests is the crate's.
    let source = Source::parse("Cargo.toml", None).unwrap();
    assert!(
        source
            .open()
            .unwrap_err()
            .to_string()
            .starts_with("Cargo.toml: ")
    );
}

/// How often each page was referenced, hottest first.
fn ranked(pages: usize, references: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut counts = vec![0.0; pages];
    for page in references {
        counts[page as usize] += 1.0;
    }
    counts.sort_by(|a: &f64, b| b.total_cmp(a));
    counts
}

fn of(batch: &Batch, write: bool) -> impl Iterator<Item = u64> + '_ {
    batch
        .iter()
        .filter(move |reference| reference.1 == write)
        .map(|reference| reference.0)
}

/// Chi-square of counts against expectations, in standard deviations from its
/// mean.
fn chi_square(counts: &[f64], weights: &[f64]) -> f64 {
    let references: f64 = counts.iter().sum();
    let total: f64 = weights.iter().sum();
    let sum: f64 = counts
        .iter()
        .zip(weights)
        .map(|(count, weight)| {
            let expected = references * weight / total;
            (count - expected).powi(2) / expected
        })
        .sum();
    let freedom = counts.len() as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn reads_and_writes_follow_their_power_laws() {
    // With few pages every rank is so far from the next that sorting by count
    // finds the true ranks, except at alpha 0, where all are alike.
    for (read, write) in [("0", "1.2"), ("0.5", "0"), ("1", "0.5"), ("1.2", "1")] {
        let spec =
            format!("zipf:pages=20,refs=1000000,read-alpha={read},write-alpha={write},write=0.5");
        let batch = generate(&spec);
        for (writes, alpha) in [(false, read), (true, write)] {
            let alpha: f64 = alpha.parse().unwrap();
            let counts = ranked(20, of(&batch, writes));
            let weights: Vec<f64> = (1..=20).map(|rank| f64::from(rank).powf(-alpha)).collect();
            let deviation = chi_square(&counts, &weights);
            assert!(deviation.abs() < 4.0, "{spec} alpha {alpha}: {deviation}");
        }
    }
}

#[test]
fn the_hottest_pages_get_their_share() {
    for alpha in ["0", "0.5", "1", "1.2"] {
        let batch = generate(&format!(
            "zipf:pages=10000,refs=400000,read-alpha={alpha},write=0"
        ));
        let alpha: f64 = alpha.parse().unwrap();
        let counts = ranked(10_000, of(&batch, false));
        let weights: Vec<f64> = (1..=10_000)
            .map(|rank| f64::from(rank).powf(-alpha))
            .collect();
        let share = |values: &[f64]| values[..100].iter().sum::<f64>() / values.iter().sum::<f64>();
        let (found, expected) = (share(&counts), share(&weights));
        // Sorting by count favours the luckier pages a little.
        let allowed = if alpha == 0.0 { 0.005 } else { 0.003 };
        assert!(
            (found - expected).abs() < allowed,
            "{alpha}: {found} {expected}"
        );
    }
}

#[test]
fn uniform_is_uniform() {
    let batch = generate("uniform:pages=1000,refs=1000000,write=0.5");
    for write in [false, true] {
        let counts = ranked(1000, of(&batch, write));
        let deviation = chi_square(&counts, &[1.0; 1000]);
        assert!(deviation.abs() < 4.0, "{deviation}");
    }
}

#[test]
fn write_ratios_are_exact_in_expectation() {
    for (write, share) in [
        ("0", 0.0f64),
        ("1", 1.0),
        ("0.5", 0.5),
        ("0.125", 0.125),
        ("0.001", 0.001),
    ] {
        for generator in ["zipf", "uniform"] {
            let batch = generate(&format!("{generator}:refs=200000,write={write}"));
            let writes = batch.writes.iter().filter(|&&write| write).count() as f64;
            let deviation = (200_000.0 * share * (1.0 - share)).sqrt();
            assert!(
                (writes - 200_000.0 * share).abs() <= 4.0 * deviation,
                "{write}: {writes}"
            );
        }
    }
}

#[test]
fn rankings_are_shared_only_when_asked() {
    let hottest = |batch: &Batch, write: bool| {
        let mut counts = vec![0; 1000];
        of(batch, write).for_each(|page| counts[page as usize] += 1);
        let mut pages: Vec<usize> = (0..1000).collect();
        pages.sort_by_key(|&page| std::cmp::Reverse(counts[page]));
        pages[..10].to_vec()
    };
    let common = |spec: &str| {
        let batch = generate(spec);
        let reads = hottest(&batch, false);
        hottest(&batch, true)
            .iter()
            .filter(|page| reads.contains(page))
            .count()
    };
    let spec = "zipf:pages=1000,refs=400000,read-alpha=1.2,write=0.5";
    assert!(common(spec) <= 2);
    assert!(common(&format!("{spec},shared=true")) >= 9);
    assert!(common(&format!("{spec},write-alpha=1,shared=true")) >= 9);
}
