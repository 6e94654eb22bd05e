//! Generated traces: their pinned bytes, and the distributions that they promise.

use crate::common::{checksum, generate, read_from};
use ebbpool_trace::{Batch, ReadOptions, Source, TraceError, generators};

/// These must never change: results name a trace by its spec. The independent program
/// `data/generators.py` prints the same numbers.
#[test]
fn the_bytes_are_pinned() {
    for (spec, expected) in [
        ("zipf", 0x9E01_44FE_4C66_BE72),
        ("zipf:pages=50000,refs=500000,read-alpha=0.4,write-alpha=1.2,write=0.3,seed=1", 0x87B3_BC96_FC5D_3601),
        ("zipf:pages=1000,refs=100000,read-alpha=0.99,shared=true,seed=42", 0xACB7_97BB_4DDC_D228),
        ("zipf:pages=1000,refs=100000,read-alpha=0,write-alpha=2.5,shared=true", 0x89F3_163C_CA09_B55A),
        ("uniform", 0xC671_FD7C_0A7A_CB48),
        ("uniform:pages=18446744073709551615,refs=1000,write=0.005,seed=7", 0x05A4_9575_83D2_B558),
        ("self-similar", 0x19F4_AFE4_0122_5A00),
        ("self-similar:pages=777,refs=100000,skew=0.95/0.005,write=0.5,shuffled=true,seed=5", 0x08FF_8968_F9FB_FD47),
        ("scan-mix", 0xDF05_E9EC_A8CD_DFF4),
        ("scan-mix:scans=7,scan-length=333,scan-pages=100,scan-write=0.25", 0xC190_BBE6_2CCB_24EF),
        ("btree", 0x82FD_3338_C51E_6792),
        (
            "btree:records=30000,key=3,value=20,page-size=512,fill=0.8,queries=5000,updates=5000,scans=100,scan-updates=100,intensity=0.2,length=100,skew=0.9/0.1,scattered=true,seed=5",
            0x4CBA_1E61_AA27_7658,
        ),
        (
            "btree:records=3,value=100,page-size=1024,fill=1,queries=50,updates=50,scans=10,scan-updates=10,length=2",
            0x6A1E_F0B2_8FF1_61D1,
        ),
        ("workload-dynamics:base=(uniform:refs=100000)", 0xB9D3_6D43_5013_84F4),
        ("workload-dynamics:base=(uniform:refs=100000),model=wm2,reading=absolute,epoch=999,seed=3", 0x2817_1B4A_C518_163C),
    ] {
        let found = checksum(&generate(spec));
        assert_eq!(found, expected, "{spec}: {found:#018X}");
    }
}

#[test]
fn generators_state_their_metadata() {
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
    // The references do not depend on the batches.
    let spec = Source::parse("zipf:refs=10000", None).unwrap();
    let whole = read_from(&spec, usize::MAX).unwrap();
    for max in [1, 255, 256, 257, 4096] {
        assert_eq!(read_from(&spec, max).unwrap(), whole);
    }
}

#[test]
fn defaults() {
    let full = "zipf:pages=10000,refs=1000000,read-alpha=1,write-alpha=1,write=0.3,shared=false,seed=1";
    assert_eq!(generate("zipf"), generate(full));
    assert_eq!(generate("zipf:"), generate("zipf: write-alpha=1.0 , read-alpha=1.00"));
    assert_eq!(generate("zipf:refs=1000,read-alpha=0.7"), generate("zipf:refs=1000,read-alpha=0.7,write-alpha=0.7"));
    assert_ne!(generate("zipf:refs=1000,seed=1"), generate("zipf:refs=1000,seed=2"));
    assert_eq!(generate("uniform"), generate("uniform:pages=10000,refs=1000000,write=0.3,seed=1"));
    let names: Vec<&str> = generators().map(|info| info.name).collect();
    assert_eq!(names, ["zipf", "uniform", "self-similar", "scan-mix", "btree", "workload-dynamics", "tpcc", "tpcb", "tatp"]);
}

#[test]
fn bad_parameters() {
    for (spec, parts) in [
        ("zipf:page=5", &["unknown parameter 'page' (did you mean 'pages'?)", "it takes pages, refs, read-alpha"][..]),
        (
            "zipf:skew=5",
            &["unknown parameter 'skew'; it takes pages (a whole number from 1 to 1000000000; default 10000), refs"],
        ),
        ("zipf:pages=0", &["pages=0: expected a whole number from 1 to 1000000000"]),
        ("zipf:pages=1000000001", &["expected a whole number from 1"]),
        ("zipf:pages=-1", &["pages=-1: expected"]),
        ("zipf:pages=", &["pages=: expected"]),
        ("zipf:pages=1e6", &["pages=1e6: expected"]),
        ("zipf:pages", &["'pages' is not of the form NAME=VALUE"]),
        ("zipf:pages=1,pages=2", &["'pages' is given twice"]),
        ("zipf:write=1.1", &["write=1.1: expected a decimal number from 0 to 1"]),
        ("zipf:write=-0.1", &["expected a decimal number"]),
        ("zipf:read-alpha=11", &["expected a decimal number from 0 to 10"]),
        ("zipf:shared=yes", &["shared=yes: expected true or false"]),
        ("uniform:seed=18446744073709551616", &["expected a whole number from 0 to 2^64-1"]),
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
fn a_file_takes_precedence_over_a_generator() {
    // The current directory of tests is the crate's.
    let source = Source::parse("Cargo.toml", None).unwrap();
    assert!(source.open().unwrap_err().to_string().starts_with("Cargo.toml: "));
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
    batch.iter().filter(move |reference| reference.1 == write).map(|reference| reference.0)
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
    // With few pages, popularities differ enough for sorting by count to find the true
    // ranks, except at alpha 0, where all are equal.
    for (read, write) in [("0", "1.2"), ("0.5", "0"), ("1", "0.5"), ("1.2", "1")] {
        let spec = format!("zipf:pages=20,refs=1000000,read-alpha={read},write-alpha={write},write=0.5");
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
        let batch = generate(&format!("zipf:pages=10000,refs=400000,read-alpha={alpha},write=0"));
        let alpha: f64 = alpha.parse().unwrap();
        let counts = ranked(10_000, of(&batch, false));
        let weights: Vec<f64> = (1..=10_000).map(|rank| f64::from(rank).powf(-alpha)).collect();
        let share = |values: &[f64]| values[..100].iter().sum::<f64>() / values.iter().sum::<f64>();
        let (found, expected) = (share(&counts), share(&weights));
        // Sorting by count slightly overstates the share of the hottest pages.
        let allowed = if alpha == 0.0 { 0.005 } else { 0.003 };
        assert!((found - expected).abs() < allowed, "{alpha}: {found} {expected}");
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
    for (write, share) in [("0", 0.0f64), ("1", 1.0), ("0.5", 0.5), ("0.125", 0.125), ("0.001", 0.001)] {
        for generator in ["zipf", "uniform"] {
            let batch = generate(&format!("{generator}:refs=200000,write={write}"));
            let writes = batch.writes.iter().filter(|&&write| write).count() as f64;
            let deviation = (200_000.0 * share * (1.0 - share)).sqrt();
            assert!((writes - 200_000.0 * share).abs() <= 4.0 * deviation, "{write}: {writes}");
        }
    }
}

#[test]
fn rankings_are_shared_only_on_request() {
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
        hottest(&batch, true).iter().filter(|page| reads.contains(page)).count()
    };
    let spec = "zipf:pages=1000,refs=400000,read-alpha=1.2,write=0.5";
    assert!(common(spec) <= 2);
    assert!(common(&format!("{spec},shared=true")) >= 9);
    assert!(common(&format!("{spec},write-alpha=1,shared=true")) >= 9);
}

/// Expected shares of a self-similar trace: the hottest k of n pages get
/// (k/n)^(ln a / ln b) of the references.
fn self_similar_weights(pages: u32, a: f64, b: f64) -> Vec<f64> {
    let power = |k: u32| (f64::from(k) / f64::from(pages)).powf(a.ln() / b.ln());
    (1..=pages).map(|k| power(k) - power(k - 1)).collect()
}

#[test]
fn self_similar_follows_gray() {
    for (skew, a, b) in [("0.8/0.2", 0.8, 0.2), ("0.9/0.1", 0.9, 0.1), ("0.5/0.25", 0.5, 0.25), ("0.3/0.3", 0.3, 0.3)] {
        let batch = generate(&format!("self-similar:pages=500,refs=1000000,skew={skew},write=0.4"));
        for write in [false, true] {
            let mut counts = vec![0.0; 500];
            of(&batch, write).for_each(|page| counts[page as usize] += 1.0);
            let deviation = chi_square(&counts, &self_similar_weights(500, a, b));
            assert!(deviation.abs() < 4.0, "{skew} {write}: {deviation}");
        }
    }
}

#[test]
fn self_similarity_holds_at_every_level() {
    let batch = generate("self-similar:pages=10000,refs=1000000");
    for (level, pages) in [(1, 2000), (2, 400), (3, 80), (4, 16)] {
        let share = 0.8f64.powi(level);
        let hot = batch.pages.iter().filter(|&&page| page < pages).count() as f64;
        let deviation = (1e6 * share * (1.0 - share)).sqrt();
        assert!((hot - 1e6 * share).abs() < 4.0 * deviation, "level {level}: {hot}");
    }
    // Shuffled, other pages have the same shares.
    let shuffled = generate("self-similar:pages=10000,refs=1000000,shuffled=true");
    let near_zero = shuffled.pages.iter().filter(|&&page| page < 2000).count();
    assert!(near_zero < 600_000, "{near_zero}");
    let counts = ranked(10_000, shuffled.pages.iter().copied());
    let hot = counts[..2000].iter().sum::<f64>();
    // Sorting by count slightly overstates the share of the hottest pages.
    assert!((hot - 800_000.0).abs() < 8_000.0, "{hot}");
}

/// The scans of a trace, which have an area of their own: for each the number of zipf
/// references before it, and its pages.
fn scans(batch: &Batch, area: u64) -> Vec<(usize, Vec<u64>)> {
    let mut scans: Vec<(usize, Vec<u64>)> = Vec::new();
    let (mut zipf, mut inside) = (0, false);
    for &page in &batch.pages {
        if page < area {
            zipf += 1;
            inside = false;
        } else {
            if !inside {
                scans.push((zipf, Vec::new()));
            }
            inside = true;
            scans.last_mut().unwrap().1.push(page);
        }
    }
    scans
}

#[test]
fn scan_mix_is_zipf_with_scans_between() {
    let zipf = generate("zipf:pages=400,refs=10000,write-alpha=0.5,write=0.4,seed=9");
    for start in ["random", "next", "first"] {
        let batch = generate(&format!(
            "scan-mix:pages=400,refs=10000,write-alpha=0.5,write=0.4,seed=9,scans=20,scan-length=30,scan-pages=100,scan-start={start}"
        ));
        let base: Batch = batch.iter().filter(|&(page, _)| page < 400).collect();
        assert_eq!(base, zipf);
        let scans = scans(&batch, 400);
        let at: Vec<usize> = scans.iter().map(|scan| scan.0).collect();
        let even: Vec<usize> = (0..20).map(|scan| 250 + 500 * scan).collect();
        assert_eq!(at, even);
        let mut expected = 400;
        for (_, pages) in &scans {
            assert_eq!(pages.len(), 30);
            for pair in pages.windows(2) {
                assert_eq!(pair[1], if pair[0] == 499 { 400 } else { pair[0] + 1 });
            }
            match start {
                "first" => assert_eq!(pages[0], 400),
                "next" => assert_eq!(pages[0], expected),
                _ => assert!((400..500).contains(&pages[0])),
            }
            expected = 400 + (pages[29] - 400 + 1) % 100;
        }
        assert!(batch.iter().all(|(page, write)| page < 400 || !write));
    }
    let begins: Vec<u64> = scans(&generate("scan-mix:pages=10,refs=4000,scans=2000,scan-length=1,scan-pages=10"), 10)
        .iter()
        .map(|scan| scan.1[0] - 10)
        .collect();
    let counts = ranked(10, begins.into_iter());
    let deviation = chi_square(&counts, &[1.0; 10]);
    assert!(deviation.abs() < 4.0, "{deviation}");
}

#[test]
fn scan_mix_at_its_limits() {
    let paper = Source::parse("scan-mix", None).unwrap();
    let reader = paper.open().unwrap();
    assert_eq!(reader.references(), Some(100_000 + 50 * 1000));
    assert_eq!(reader.metadata().database_pages, Some(50_000));
    assert_eq!(generate("scan-mix:pages=50,refs=700,scans=0,seed=3"), generate("zipf:pages=50,refs=700,seed=3"));
    assert_eq!(generate("scan-mix:pages=50,refs=700,scan-length=0,seed=3"), generate("zipf:pages=50,refs=700,seed=3"));
    let only = generate("scan-mix:refs=0,scans=2,scan-length=3,scan-pages=2,scan-first=7,scan-start=first,scan-write=1");
    assert_eq!(only.pages, [7, 8, 7, 7, 8, 7]);
    assert_eq!(only.writes, [true; 6]);
    // More scans than zipf references.
    assert_eq!(generate("scan-mix:refs=3,scans=100,scan-length=2").len(), 203);
    // The references do not depend on the batches.
    let source = Source::parse("scan-mix:refs=1000,scans=7,scan-length=90", None).unwrap();
    let whole = read_from(&source, usize::MAX).unwrap();
    for max in [1, 89, 90, 91, 257] {
        assert_eq!(read_from(&source, max).unwrap(), whole);
    }
}

#[test]
fn btree_states_its_pages() {
    let spec = "btree:records=5000,queries=400,updates=300,scans=20,scan-updates=20";
    let source = Source::parse(spec, None).unwrap();
    let reader = source.open().unwrap();
    assert_eq!(reader.metadata().page_size, Some(4096));
    // Meta, map, root; 715 leaves of 7 records, 6 nodes above them, and a page that was freed.
    assert_eq!(reader.metadata().database_pages, Some(3 + 715 + 6 + 1));
    let whole = read_from(&source, usize::MAX).unwrap();
    assert!(whole.pages.iter().all(|&page| (2..725).contains(&page)));
    for max in [1, 2, 3, 257] {
        assert_eq!(read_from(&source, max).unwrap(), whole);
    }
    // Every point operation descends three levels, and only leaves are written.
    let points = "btree:records=5000,queries=400,updates=300,scans=0,scan-updates=0";
    let points = generate(points);
    assert_eq!(points.len(), 3 * 700);
    assert!(points.pages.chunks(3).all(|way| way[0] == 2));
    let written: Vec<usize> = (0..).zip(&points.writes).filter(|(_, write)| **write).map(|(at, _)| at).collect();
    assert_eq!(written.len(), 300);
    assert!(written.iter().all(|at| at % 3 == 2));
    // 256 records, 7 to a leaf, are in 37 or 38 leaves.
    let scans = generate("btree:records=100000,queries=0,updates=0,scans=50,scan-updates=0");
    assert!((50 * (2 + 37)..=50 * (2 + 38)).contains(&scans.len()));
}

#[test]
fn btree_refuses_impossible_trees() {
    for (spec, part) in [
        ("btree:value=1338", "value=1338: expected at most 1337 bytes: longer ones are not stored in leaves of 4096 bytes"),
        ("btree:key=2,records=65537", "keys of 2 bytes distinguish 65536 records, not 65537; choose longer keys"),
        ("btree:page-size=4000", "expected 512, 1024"),
        ("btree:records=0", "records=0: expected a whole number from 1"),
        ("btree:intensity=1.5", "expected a decimal number from 0 to 1"),
    ] {
        let error = Source::parse(spec, None).unwrap_err();
        assert!(error.is_usage(), "{spec}");
        let message = error.to_string();
        assert!(message.contains(part), "{message}");
    }
    generate("btree:value=1337,key=4,records=100,fill=0,queries=9");
}

/// Writes in each epoch of 1,000 references.
fn writes_per_epoch(batch: &Batch) -> Vec<usize> {
    let count = |epoch: &[bool]| epoch.iter().filter(|&&write| write).count();
    batch.writes.chunks(1000).map(count).collect()
}

#[test]
fn workload_dynamics_follow_the_models() {
    let base = "zipf:pages=500,refs=9500,write=0.2,seed=4";
    let own = generate(base);
    let w0 = writes_per_epoch(&own)[0];
    let of = |more: &str| {
        let spec = format!("workload-dynamics:base=({base}),epoch=1000{more}");
        let batch = generate(&spec);
        assert_eq!(batch.pages, own.pages);
        (writes_per_epoch(&batch), batch)
    };
    let rounded = |share: f64, references: usize| (share * references as f64).round() as usize;

    let (grown, batch) = of(",model=wm1");
    assert_eq!(grown.len(), 10);
    for (i, &writes) in grown.iter().enumerate() {
        let share = w0 as f64 / 1000.0 * (1.0 + i as f64 / 100.0);
        let references = if i == 9 { 500 } else { 1000 };
        assert_eq!(writes, rounded(share, references), "epoch {i}");
    }
    // The first epoch is the base's own; later ones change as few references as possible.
    assert_eq!(batch.writes[..1000], own.writes[..1000]);
    for (i, own) in own.writes.chunks(1000).enumerate() {
        let changed = own.iter().zip(&batch.writes[1000 * i..]).filter(|(a, b)| a != b);
        let own = own.iter().filter(|&&write| write).count();
        assert_eq!(changed.count(), own.abs_diff(grown[i]), "epoch {i}");
    }

    let (literal, _) = of(",model=wm2");
    let (absolute, _) = of(",model=wm2,reading=absolute");
    for i in 0..9 {
        let even = i % 2 == 0;
        let shrunk = rounded(0.95 * w0 as f64 / 1000.0, 1000);
        assert_eq!(literal[i], if even { w0 } else { shrunk }, "epoch {i}");
        assert_eq!(absolute[i], if even { w0 } else { 950 }, "epoch {i}");
    }

    let (constant, _) = of(",model=constant,w0=0.15");
    assert_eq!((&constant[..9], constant[9]), (&[150; 9][..], 75));

    let (saturated, _) = of(",model=wm1,w0=0.995");
    assert_eq!(saturated[..3], [995, 1000, 1000]);
    assert_eq!(of(",w0=0").0, [0; 10]);
}

#[test]
fn workload_dynamics_choose_fairly() {
    // 500 random reads of 1,000 become writes: all pages are equally likely.
    let batch = generate("workload-dynamics:base=(uniform:pages=20,refs=400000,write=0),epoch=1000,w0=0.5,model=wm2");
    let written = ranked(20, of(&batch, true));
    let read = ranked(20, of(&batch, false));
    for counts in [written, read] {
        let deviation = chi_square(&counts, &[1.0; 20]);
        assert!(deviation.abs() < 4.0, "{deviation}");
    }
    let runs = batch.writes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((198_000..202_500).contains(&runs), "{runs}");
    assert_ne!(
        generate("workload-dynamics:base=(uniform:refs=9000),seed=1").writes,
        generate("workload-dynamics:base=(uniform:refs=9000),seed=2").writes
    );
}

#[test]
fn workload_dynamics_say_that_they_leave_out_operations_that_begin_late() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let reads = "R 1\n".repeat(100_000);
    for (last, notes) in [("R 2\n", 0), ("O 2\n", 1), ("T 2\n", 1)] {
        std::fs::write(path, format!("{reads}{last}")).unwrap();
        let source = Source::parse(&format!("workload-dynamics:base={path}"), None).unwrap();
        assert!(read_from(&source, 1000).unwrap().len() >= 100_000);
        let found = source.late_notes();
        assert!(found.len() == notes && found.iter().all(|note| note.contains(": the trims of the base")), "{found:?}");
    }
}

#[test]
fn workload_dynamics_take_over_the_metadata_of_the_base() {
    let spec = "workload-dynamics:base=tests/data/pyarrow.parquet,epoch=7";
    let base = Source::parse("tests/data/pyarrow.parquet", None).unwrap();
    let source = Source::parse(spec, None).unwrap();
    let (reader, base) = (source.open().unwrap(), base.open().unwrap());
    assert_eq!(reader.references(), base.references());
    assert_eq!(reader.metadata().page_size, base.metadata().page_size);
    assert_eq!(reader.metadata().name.as_deref(), Some(spec));
    read_from(&source, 10).unwrap();
}

#[test]
fn bad_nested_parameters() {
    let deep = format!("workload-dynamics:base={}x{}", "(".repeat(9), ")".repeat(9));
    let chain = "workload-dynamics:base=".repeat(5000);
    for (spec, part) in [
        ("workload-dynamics", "base is missing; it takes base"),
        ("workload-dynamics:base=nowhere.txt", "nowhere.txt: no such file"),
        ("workload-dynamics:base=zipf:refs=5", "expected parentheses around it, as in base=(zipf:refs=5)"),
        ("workload-dynamics:base=(zipf:refs=5", "parentheses do not match"),
        ("workload-dynamics:base=(zipf:page=5)", "did you mean 'pages'?"),
        ("workload-dynamics:base=zipf,model=wm3", "model=wm3: expected wm1, wm2 or constant"),
        ("workload-dynamics:base=zipf,epoch=0", "epoch=0: expected a whole number from 1"),
        (&deep, "nested more than 8 deep"),
        (&chain, "expected parentheses around it"),
        ("self-similar:skew=0.8", "skew=0.8: expected two decimal numbers"),
        ("self-similar:skew=0.2/0.8", "the first not below the second"),
        ("scan-mix:scan-start=middle", "expected random, next or first"),
        ("selfsimilar:pages=5", "did you mean 'self-similar'?"),
    ] {
        let message = Source::parse(spec, None).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn a_generator_has_a_trace_of_each_seed() {
    let options = ReadOptions::default();
    let labels = |arg: &str, count| -> Vec<String> {
        let sources = Source::seeds(arg, &options, count).expect("traces");
        sources.iter().map(|it| it.label().to_owned()).collect()
    };
    assert_eq!(
        labels("uniform:pages=9,seed=5,refs=10", 2),
        ["uniform:pages=9,refs=10,seed=5", "uniform:pages=9,refs=10,seed=6"]
    );
    // Without a seed it begins with the default; a generator among the arguments has seeds, too.
    assert_eq!(
        labels("workload-dynamics:base=(uniform:refs=10,seed=7),model=wm1", 2),
        [
            "workload-dynamics:base=(uniform:refs=10,seed=7),model=wm1,seed=1",
            "workload-dynamics:base=(uniform:refs=10,seed=8),model=wm1,seed=2"
        ]
    );
    let own = Source::parse("uniform:pages=9,refs=10", None).expect("a trace");
    let [first] = &Source::seeds("uniform:pages=9,refs=10", &options, 1).expect("traces")[..] else {
        panic!("not one trace");
    };
    assert_eq!(first.content_key().expect("a key"), own.content_key().expect("a key"));
    let last = format!("uniform:seed={}", u64::MAX);
    assert_eq!(labels(&last, 1).len(), 1);
    let error = Source::seeds(&last, &options, 2).expect_err("no such seed");
    assert!(matches!(error, TraceError::Seeds { .. }), "{error}");
    // A file has no seeds.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.txt");
    std::fs::write(&path, "R 1\n").expect("a file");
    assert_eq!(labels(path.to_str().expect("UTF-8"), 3).len(), 1);
}
