//! Counts, shares and bounds of the workloads, and their pinned bytes.

use std::collections::{HashMap, HashSet};

use super::*;

fn small() -> CfdcWorkload {
    CfdcWorkload {
        records: 10_000,
        queries: 60_000,
        updates: 40_000,
        scans: 3_000,
        update_scans: 2_000,
        scan_records: 256,
        ..CfdcWorkload::default()
    }
}

/// Of each kind: queries, updates, scans, update scans.
fn counts(operations: impl Iterator<Item = WorkloadOperation>) -> [u64; 4] {
    let mut counts = [0; 4];
    for operation in operations {
        counts[match operation {
            WorkloadOperation::Read { .. } => 0,
            WorkloadOperation::Update { .. } => 1,
            WorkloadOperation::Scan { .. } => 2,
            WorkloadOperation::UpdateScan { .. } => 3,
            other => panic!("{other:?} is not of the paper"),
        }] += 1;
    }
    counts
}

/// FNV-1a over kind, record and number of records, as `tests/data/generators.py` has it.
fn checksum(operations: impl Iterator<Item = WorkloadOperation>) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    };
    for operation in operations {
        let (kind, record, records) = match operation {
            WorkloadOperation::Read { record } => (0, record, 1),
            WorkloadOperation::Update { record } => (1, record, 1),
            WorkloadOperation::Scan { first, records } => (2, first, records),
            WorkloadOperation::UpdateScan { first, records } => (3, first, records),
            WorkloadOperation::ReadModifyWrite { record } => (4, record, 1),
            WorkloadOperation::Insert { record } => (5, record, 1),
        };
        add(&[kind]);
        add(&record.to_le_bytes());
        add(&records.to_le_bytes());
    }
    hash
}

#[test]
fn the_baseline_and_the_intensities_are_the_papers() {
    let of = |workload: CfdcWorkload| [workload.queries, workload.updates, workload.scans, workload.update_scans];
    let paper = CfdcWorkload::default();
    assert_eq!(of(paper.clone()), [100_000, 100_000, 200, 200]);
    let fifth = paper.clone().with_update_intensity(0.2);
    assert_eq!(of(fifth), [160_000, 40_000, 320, 80]);
    let none = paper.clone().with_update_intensity(0.0);
    assert_eq!(of(none), [200_000, 0, 400, 0]);
    let all = paper.clone().with_update_intensity(1.0);
    assert_eq!(of(all), [0, 200_000, 0, 400]);
    let scans = paper.with_scans(1201);
    assert_eq!(of(scans), [100_000, 100_000, 601, 600]);
}

#[test]
fn operations_have_the_requested_counts_in_random_order() {
    let operations: Vec<WorkloadOperation> = small().operations().unwrap().collect();
    assert_eq!(counts(operations.iter().copied()), [60_000, 40_000, 3_000, 2_000]);
    // The first, the second, … of the tenths of the workload have a tenth of each kind.
    for tenth in operations.chunks(10_500) {
        let found = counts(tenth.iter().copied());
        for (found, expected) in found.into_iter().zip([6_000.0f64, 4_000.0, 300.0, 200.0]) {
            let off = (found as f64 - expected).abs();
            assert!(off < 4.0 * expected.sqrt(), "{found} of {expected}");
        }
    }
    let mut begun = small().operations().unwrap();
    assert_eq!(begun.size_hint(), (105_000, Some(105_000)));
    begun.next();
    assert_eq!(begun.size_hint(), (104_999, Some(104_999)));
}

#[test]
fn point_operations_are_self_similar_and_ranges_uniform() {
    let mut hot = [0.0f64; 2];
    let mut starts = [0.0f64; 10];
    for operation in small().operations().unwrap() {
        match operation {
            WorkloadOperation::Read { record } => hot[0] += f64::from(u8::from(record < 2_000)),
            WorkloadOperation::Update { record } => hot[1] += f64::from(u8::from(record < 2_000)),
            WorkloadOperation::Scan { first, records } | WorkloadOperation::UpdateScan { first, records } => {
                starts[first as usize / 1_000] += 1.0;
                assert_eq!(records, 256.min(10_000 - first));
            }
            other => panic!("{other:?}"),
        }
    }
    for (hot, of) in hot.into_iter().zip([60_000.0f64, 40_000.0]) {
        let deviation = (of * 0.8 * 0.2).sqrt();
        assert!((hot - 0.8 * of).abs() < 4.0 * deviation, "{hot} of {of}");
    }
    assert!(starts.iter().all(|count| (count - 500.0).abs() < 4.0 * 500f64.sqrt()));
}

#[test]
fn popular_records_are_adjacent_or_scattered() {
    for scattered in [false, true] {
        let workload = CfdcWorkload { scattered, ..small() };
        let mut popularity: HashMap<u64, u64> = HashMap::new();
        for operation in workload.operations().unwrap() {
            if let WorkloadOperation::Read { record } | WorkloadOperation::Update { record } = operation {
                *popularity.entry(record).or_default() += 1;
            }
        }
        let mut records: Vec<u64> = popularity.keys().copied().collect();
        records.sort_by_key(|record| std::cmp::Reverse(popularity[record]));
        let share: u64 = records[..2_000].iter().map(|record| popularity[record]).sum();
        assert!((79_000..83_000).contains(&share), "{share}");
        let low = records[..100].iter().filter(|&&record| record < 2_000).count();
        assert_eq!(low > 90, !scattered, "{low}");
    }
}

/// The independent program `tests/data/generators.py` prints the same numbers.
#[test]
fn the_operations_are_pinned() {
    let expected = 0xC75A_F077_B69F_EAA7;
    assert_eq!(checksum(small().operations().unwrap()), expected);
    let other = CfdcWorkload { skew: "0.9/0.05".parse().unwrap(), scattered: true, seed: 7, ..small() };
    let expected = 0xDE76_D199_BCF9_E546;
    assert_eq!(checksum(other.operations().unwrap()), expected);
    for (mix, expected) in [
        (Mix::A, 0xA568_EBDB_1E3A_7126),
        (Mix::D, 0x56D8_878D_EA01_8F33),
        (Mix::E, 0x1D8D_0417_1543_CC36),
        (Mix::F, 0xA140_49BA_28DF_0491),
    ] {
        let workload = Ycsb { records: 1_000, operations: 20_000, ..Ycsb::new(mix) };
        let found = checksum(workload.operations().unwrap());
        assert_eq!(found, expected, "{mix}: {found:#018X}");
    }
}

#[test]
fn impossible_workloads_are_refused() {
    let with = |records| CfdcWorkload { records, ..small() };
    let refused = |workload: &CfdcWorkload| workload.operations().err().unwrap();
    assert_eq!(refused(&with(0)), WorkloadError::Records(0));
    let many = MOST_RECORDS + 1;
    assert_eq!(refused(&with(many)), WorkloadError::Records(many));
    let endless = CfdcWorkload { queries: u64::MAX, ..with(1) };
    assert_eq!(refused(&endless), WorkloadError::Operations);
    let text = "0.2/0.8".parse::<Skew>().unwrap_err().to_string();
    assert!(text.contains("as in 0.8/0.2"), "{text}");
    assert_eq!(Skew::default().to_string(), "0.8/0.2");
    assert_eq!(Skew::default(), "0.80/0.20".parse().unwrap());
}

fn ycsb(mix: Mix) -> Vec<WorkloadOperation> {
    let workload = Ycsb { records: 1_000, operations: 100_000, ..Ycsb::new(mix) };
    let operations: Vec<WorkloadOperation> = workload.operations().unwrap().collect();
    assert_eq!(operations.len(), 100_000);
    operations
}

#[test]
fn ycsb_mixes_are_the_standard_ones() {
    for (mix, reads) in [
        (Mix::A, 50_000.0f64),
        (Mix::B, 95_000.0),
        (Mix::C, 100_000.0),
        (Mix::D, 95_000.0),
        (Mix::E, 95_000.0),
        (Mix::F, 50_000.0),
    ] {
        let is_read = |operation: &&WorkloadOperation| match (mix, operation) {
            (Mix::E, WorkloadOperation::Scan { .. }) => true,
            (Mix::E, _) => false,
            (_, WorkloadOperation::Read { .. }) => true,
            (Mix::A | Mix::B, WorkloadOperation::Update { .. }) => false,
            (Mix::D, WorkloadOperation::Insert { .. }) => false,
            (Mix::F, WorkloadOperation::ReadModifyWrite { .. }) => false,
            (_, other) => panic!("{mix}: {other:?}"),
        };
        let operations = ycsb(mix);
        for operation in &operations {
            if mix == Mix::E && !matches!(operation, WorkloadOperation::Scan { .. }) {
                assert!(matches!(operation, WorkloadOperation::Insert { .. }));
            }
        }
        let found = operations.iter().filter(is_read).count() as f64;
        let deviation = (reads * (1.0 - reads / 100_000.0)).sqrt();
        assert!((found - reads).abs() <= 4.0 * deviation, "{mix}: {found}");
    }
}

#[test]
fn ycsb_records_follow_zipf_scattered() {
    let mut popularity = vec![0.0f64; 1_000];
    for operation in ycsb(Mix::C) {
        let WorkloadOperation::Read { record } = operation else {
            panic!("{operation:?}");
        };
        popularity[record as usize] += 1.0;
    }
    let hottest = popularity.iter().copied().fold(0.0, f64::max);
    let zeta: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
    let expected = 100_000.0 / zeta;
    assert!((hottest - expected).abs() < 4.0 * expected.sqrt(), "{hottest}");
    let mut ranks: Vec<usize> = (0..1_000).collect();
    ranks.sort_by(|&a, &b| popularity[b].total_cmp(&popularity[a]));
    let low = ranks[..50].iter().filter(|&&record| record < 500).count();
    assert!((10..40).contains(&low), "{low}");
}

#[test]
fn ycsb_inserts_continue_the_numbers_and_the_latest_are_read_most() {
    for mix in [Mix::D, Mix::E] {
        let mut next = 1_000;
        let mut age = Vec::new();
        for operation in ycsb(mix) {
            match operation {
                WorkloadOperation::Insert { record } => {
                    assert_eq!(record, next);
                    next += 1;
                }
                WorkloadOperation::Read { record } => age.push(next - 1 - record),
                WorkloadOperation::Scan { first, records } => {
                    assert!(first < 1_000 && (1..=100).contains(&records));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(next > 5_000);
        if mix == Mix::D {
            assert!(age.iter().all(|&age| age < 1_000));
            let latest = age.iter().filter(|&&age| age == 0).count() as f64;
            let zeta: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
            let expected = age.len() as f64 / zeta;
            assert!((latest - expected).abs() < 4.0 * expected.sqrt(), "{latest}");
        }
    }
}

#[test]
fn keys_are_distinct_and_convert_back() {
    assert_eq!(Keys::Numbers(4).key(258), [0, 0, 1, 2]);
    assert_eq!(Keys::Numbers(4).record(&[0, 0, 1, 2]), Some(258));
    assert_eq!(Keys::Numbers(4).record(&[0, 1, 2]), None);
    assert_eq!(Keys::Numbers(1).suffice(256), Ok(()));
    assert_eq!(Keys::Numbers(8).suffice(u64::MAX), Ok(()));
    let refused = Keys::Numbers(1).suffice(257).unwrap_err().to_string();
    assert!(refused.contains("1 bytes distinguish 256 records, not 257"), "{refused}");
    assert!(Keys::Numbers(9).suffice(1).is_err());
    let mut seen = HashSet::new();
    for record in (0..10_000).chain([u64::MAX, 1 << 63, 12_345_678_901]) {
        let key = Keys::Hashed.key(record);
        assert_eq!(Keys::Hashed.record(&key), Some(record));
        assert!(seen.insert(key));
    }
    // A quarter of the keys is in the first quarter of the key space.
    let low = seen.iter().filter(|key| key[0] < 64).count();
    assert!((2_300..2_700).contains(&low), "{low}");
}

#[test]
fn values_have_any_length_and_differ_by_seed() {
    let value = |length: usize, seed| {
        let mut value = vec![0; length];
        fill_value(&mut value, seed);
        value
    };
    assert_eq!(value(100, 1)[..37], value(37, 1));
    assert_ne!(value(100, 1), value(100, 2));
    assert!(value(0, 1).is_empty());
    let ones: u32 = value(100_000, 3).iter().map(|byte| byte.count_ones()).sum();
    assert!((398_000..402_000).contains(&ones), "{ones}");
}
