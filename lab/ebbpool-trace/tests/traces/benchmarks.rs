//! The generators of database benchmarks: their pinned references, pages within the
//! database, and the similarity to recorded strings that `docs/traces.md` states.

use crate::common::{checksum, generate, read_from};
use ebbpool_trace::Source;
use ebbpool_trace::stats::TraceStatistics;

fn info(name: &str) -> TraceStatistics {
    TraceStatistics::from_reader(&mut Source::parse(name, None).unwrap().open().unwrap()).unwrap()
}

/// These must never change: results name a trace by its spec.
#[test]
fn the_bytes_are_pinned() {
    for (spec, expected) in [
        ("tpcc:refs=200000", 0x3656_6AE5_E2C5_4F55),
        ("tpcc:warehouses=1,refs=200000,page-size=4096,clients=3,warmup=500,hint-bits=false,seed=9", 0x8548_526F_926D_5BE9),
        ("tpcb:refs=200000", 0x48CE_8399_4201_D491),
        ("tpcb:scale=1,refs=100000,page-size=32768,clients=1,warmup=5000,seed=2", 0x1A32_5C4E_5778_97B5),
        ("tatp:refs=200000", 0x9EE4_559F_2D08_6D7A),
        ("tatp:subscribers=2000000,refs=100000,clients=100,hint-bits=false", 0xD270_C22A_5D2E_CC0B),
    ] {
        let found = checksum(&generate(spec));
        assert_eq!(found, expected, "{spec}: {found:#018X}");
    }
}

#[test]
fn pages_are_within_the_database_at_every_scale() {
    for spec in [
        "tpcc:refs=60000", "tpcc:warehouses=1,refs=400000,clients=1",
        "tpcc:warehouses=1,refs=400000,clients=500,page-size=4096",
        "tpcc:warehouses=2,refs=200000,page-size=32768,warmup=3000", "tpcc:warehouses=10000,refs=20000,clients=1",
        "tpcb:scale=1,refs=400000,clients=1", "tpcb:scale=1,refs=400000,clients=1000,page-size=4096",
        "tpcb:scale=10000,refs=20000,page-size=32768", "tatp:subscribers=1,refs=200000",
        "tatp:subscribers=7,refs=200000,clients=1000,page-size=4096", "tatp:subscribers=1000000000,refs=20000,page-size=32768",
        "tpcc:refs=1,warmup=100", "tpcb:refs=0",
    ] {
        let source = Source::parse(spec, None).unwrap();
        let metadata = source.open().unwrap().metadata().clone();
        let pages = metadata.database_pages.unwrap();
        let batch = generate(spec);
        let outside = batch.pages.iter().find(|&&page| page >= pages);
        assert_eq!(outside, None, "{spec} has {pages} pages");
        assert_eq!(Some(batch.len() as u64), source.open().unwrap().references(), "{spec}");
        let size = spec.split("page-size=").nth(1).map_or("8192", |rest| rest.split(',').next().unwrap());
        assert_eq!(metadata.page_size, size.parse().ok(), "{spec}");
    }
}

#[test]
fn the_references_do_not_depend_on_the_batches() {
    for name in ["tpcc", "tpcb", "tatp"] {
        let source = Source::parse(&format!("{name}:refs=20000,warmup=50"), None).unwrap();
        let whole = read_from(&source, usize::MAX).unwrap();
        for max in [1, 7, 4096] {
            assert_eq!(read_from(&source, max).unwrap(), whole, "{name}");
        }
        let other = generate(&format!("{name}:refs=20000,warmup=50,seed=2"));
        assert_ne!(other, whole, "{name}");
    }
}

/// Without hint bits the same pages are requested, and fewer are written.
#[test]
fn hint_bits_only_turn_reads_into_writes() {
    for spec in ["tpcc:refs=300000", "tpcb:refs=300000", "tatp:refs=300000"] {
        let with = generate(spec);
        let without = generate(&format!("{spec},hint-bits=false"));
        assert_eq!(with.pages, without.pages, "{spec}");
        let both = with.writes.iter().zip(&without.writes);
        assert!(both.clone().all(|(with, without)| with >= without));
        let turned = both.filter(|(with, without)| with > without).count();
        assert!(turned > 1_000, "{spec}: {turned}");
    }
}

/// Sizes of the papers' databases, in GB of 8 KiB pages.
#[test]
fn databases_have_the_papers_sizes() {
    for (spec, gigabytes) in [
        ("tpcc:warehouses=20,refs=16800000", 2.4),
        ("tpcb:scale=150,refs=12700000", 2.2),
        ("tpcc:warehouses=100,refs=16800000", 12.0),
    ] {
        let reader = Source::parse(spec, None).unwrap().open().unwrap();
        let pages = reader.metadata().database_pages.unwrap();
        let found = pages as f64 * 8192.0 / 1e9;
        assert!((found / gigabytes - 1.0).abs() < 0.15, "{spec}: {found} GB");
    }
}

/// Compared with the recorded samples: share of writes, size of the database, hit ratio of LRU.
#[test]
fn they_are_like_recorded_strings() {
    for (recorded, generated) in [
        ("pg-tpcc", "tpcc:warehouses=20,refs=1000000,warmup=10000"),
        ("pg-tpcb", "tpcb:scale=150,refs=300000,warmup=90000"),
        ("pg-tatp", "tatp:subscribers=500000,refs=300000,warmup=200000"),
    ] {
        let path = format!("{}/traces/{recorded}.parquet", env!("CARGO_MANIFEST_DIR"));
        let (real, made) = (info(&path), info(generated));
        assert!(
            (real.write_ratio - made.write_ratio).abs() < 0.02,
            "{generated}: writes {} {}",
            real.write_ratio,
            made.write_ratio
        );
        let of = |info: &TraceStatistics| info.lru_hit_ratio.of_pages as f64;
        assert!((of(&made) / of(&real) - 1.0).abs() < 0.03, "{generated}");
        let distinct = made.distinct_pages as f64 / real.distinct_pages as f64;
        assert!((distinct - 1.0).abs() < 0.1, "{generated}: distinct {distinct}");
        for (real, made) in real.lru_hit_ratio.points.iter().zip(&made.lru_hit_ratio.points) {
            assert!(
                (real.share - made.share).abs() < 0.03,
                "{generated}: LRU with {} % hits {} {}",
                real.percent,
                real.share,
                made.share
            );
        }
    }
}

#[test]
fn bad_parameters() {
    for (spec, part) in [
        ("tpcc:warehouses=0", "warehouses=0: expected a whole number from 1 to 10000"),
        ("tpcc:scale=5", "unknown parameter 'scale'; it takes warehouses"),
        ("tpcb:scale=10001", "scale=10001: expected a whole number from 1 to 10000"),
        ("tpcb:page-size=8193", "page-size=8193: expected 4096, 8192, 16384 or 32768"),
        ("tpcb:clients=0", "clients=0: expected a whole number from 1 to 1000"),
        ("tatp:subscribers=0", "subscribers=0: expected a whole number from 1"),
        ("tatp:hint-bits=no", "hint-bits=no: expected true or false"),
        ("tatp:refs=1000000000001", "refs=1000000000001: expected"),
        ("tatp:warmup=100000001", "warmup=100000001: expected"),
    ] {
        let error = Source::parse(spec, None).unwrap_err();
        assert!(error.is_usage());
        let message = error.to_string();
        assert!(message.contains(part), "{message}");
    }
}
