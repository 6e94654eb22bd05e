//! The flash model against closed forms and independently simulated values.
//!
//! `cargo test -p ebbpool-device --test flash theory::tables -- --ignored --nocapture` prints the tables of
//! docs/flash-model.md.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbpool_device::flash::{Flash, FlashConfig, FlashReport, closed_forms};

/// The spare space in the tables of expected values, as rho.
const RHOS: [f64; 9] = [1.0 / 1.07, 0.93, 1.0 / 1.125, 0.875, 0.80, 0.78125, 0.75, 0.72, 0.50];
const BLOCK_SIZES: [u32; 5] = [16, 32, 64, 128, 256];
/// The number of blocks for which the agreement is promised.
const BLOCKS: u32 = 2048;

/// splitmix64, so that the workload does not come from the code under test.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

fn device(settings: &str) -> Flash {
    let name = format!("flash:slc-mt29f4g08aaa,{settings}");
    let config: FlashConfig = name.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.notes(), Vec::<String>::new(), "{name}");
    Flash::new(&config).expect("works")
}

fn write(flash: &mut Flash, count: u64, mut page: impl FnMut() -> u64) {
    for _ in 0..count {
        flash.write(page()).expect("endures");
    }
}

/// Fills the device, makes `warm` writes and reports the next `counted` ones; both in multiples of
/// the logical pages.
fn measure(settings: &str, warm: f64, counted: f64, mut page: impl FnMut(u64) -> u64) -> FlashReport {
    let mut flash = device(&format!("{settings},precondition=full"));
    let pages = flash.logical_pages();
    let writes = |times: f64| (times * pages as f64) as u64;
    write(&mut flash, writes(warm), || page(pages));
    flash.reset_counters();
    write(&mut flash, writes(counted), || page(pages));
    flash.report()
}

fn uniform(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut draw = SplitMix(seed);
    move |pages| draw.below(pages)
}

/// `data` per cent of the pages get `writes` per cent of the writes.
fn hot_cold(data: u64, writes: u64) -> impl FnMut(u64) -> u64 {
    let mut draw = SplitMix(3);
    move |pages| {
        let hot = pages * data / 100;
        match draw.below(100) < writes {
            true => draw.below(hot),
            false => hot + draw.below(pages - hot),
        }
    }
}

fn amplification(report: &FlashReport) -> f64 {
    report.programs as f64 / report.host_writes as f64
}

fn within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    assert!(off.abs() <= tolerance, "{what}: measured {measured:.4}, expected {expected:.4}, {:+.2} %", 100.0 * off);
}

/// Runs the jobs on all cores; returns their results in order.
fn parallel<J: Sync, R: Send>(jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, job)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(at).map(|job| (at, job))
                } {
                    let result = run(job);
                    results.lock().expect("no thread panicked").push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panicked");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The cases, largest first so that the cores finish together.
fn greedy_cases() -> Vec<(f64, u32)> {
    let sizes = BLOCK_SIZES.iter().rev();
    sizes.flat_map(|&pages| RHOS.map(|rho| (rho, pages))).collect()
}

fn greedy(&(rho, pages): &(f64, u32)) -> FlashReport {
    let settings = format!("blocks={BLOCKS},pages_per_block={pages},rho={rho}");
    measure(&settings, 5.0, 5.0, uniform(1))
}

#[test]
fn greedy_occupies_blocks_as_the_mean_field_says() {
    for rho in [0.93, 0.8, 0.5] {
        let settings = format!("blocks={BLOCKS},rho={rho},precondition=full");
        let mut flash = device(&settings);
        let pages = flash.logical_pages();
        let mut draw = SplitMix(5);
        write(&mut flash, 5 * pages, || draw.below(pages));
        let mut measured = vec![0.0; 65];
        for _ in 0..50 {
            write(&mut flash, pages / 25, || draw.below(pages));
            let occupancy = flash.report().occupancy;
            let closed: u64 = occupancy.iter().sum();
            for (sum, count) in measured.iter_mut().zip(occupancy) {
                *sum += count as f64 / closed as f64 / 50.0;
            }
        }
        let expected = closed_forms::greedy_steady_state(rho, 64).expect("in range").occupancy;
        let apart: f64 = measured.iter().zip(&expected).map(|(m, e)| (m - e).abs()).sum();
        // Half of this is the share of blocks whose number of pages differs from the prediction.
        assert!(apart / 2.0 < 0.02, "rho {rho}: {apart}");
        for (j, (m, e)) in measured.iter().zip(&expected).enumerate() {
            assert!((m - e).abs() < 0.01, "rho {rho}: {m} of the blocks have {j} pages, not {e}");
        }
    }
}

#[test]
fn fifo_agrees_with_its_closed_form() {
    let cases = [1.0 / 1.07, 0.875, 0.8, 0.78125];
    let reports = parallel(&cases, |rho| measure(&format!("blocks={BLOCKS},rho={rho},gc=fifo"), 5.0, 5.0, uniform(2)));
    for (rho, report) in cases.into_iter().zip(reports) {
        let expected = closed_forms::fifo(rho).expect("in range");
        within(&format!("rho {rho}"), amplification(&report), expected, 0.005);
        // FIFO erases blocks in turn.
        assert!(report.wear.max - report.wear.min <= 1, "{:?}", report.wear);
    }
}

#[test]
fn random_and_sampled_cleaning_agree_with_theory() {
    let cases = [
        // Independent simulations, to 1 %.
        ("rho=0.934579439252336,gc=d-choices", 7.299),
        ("rho=0.934579439252336,gc=d-choices,d=2", 10.240),
        ("rho=0.875,gc=d-choices", 4.079),
        ("rho=0.875,gc=d-choices,d=2", 5.538),
        ("rho=0.8,gc=d-choices", 2.673),
        ("rho=0.8,gc=d-choices,d=2", 3.534),
        ("rho=0.78125,gc=d-choices", 2.470),
        ("rho=0.78125,gc=d-choices,d=2", 3.232),
        // A closed form.
        ("rho=0.8,gc=random", 5.0),
        // Choosing among one block is random cleaning.
        ("rho=0.8,gc=d-choices,d=1", 5.0),
        // Ties among the emptiest blocks do not matter for uniform writes.
        ("rho=0.8,gc=ee-greedy", 2.599),
        ("rho=0.8,wl=static:20", 2.599),
        ("rho=0.8,wl=static:4", 2.599),
        ("rho=0.8,frontiers=2", 2.599),
    ];
    let reports = parallel(&cases, |(settings, _)| measure(&format!("blocks={BLOCKS},{settings}"), 5.0, 5.0, uniform(4)));
    for ((settings, expected), report) in cases.into_iter().zip(reports) {
        within(settings, amplification(&report), expected, 0.01);
    }
}

/// Write amplification with hot and cold data: rho, data %, writes %, then greedy, FIFO, greedy with
/// a frontier for cleaned data, cost-benefit, cost-benefit with such a frontier.
const SKEWED: [(f64, u64, u64, [f64; 5]); 6] = [
    (0.8, 20, 80, [2.941, 3.025, 2.824, 3.046, 2.488]),
    (0.8, 10, 90, [3.453, 3.521, 3.012, 3.509, 1.834]),
    (0.8, 5, 95, [3.928, 4.062, 3.076, 3.991, 1.363]),
    (0.875, 20, 80, [4.293, 4.511, 4.196, 4.539, 3.752]),
    (0.875, 10, 90, [4.936, 5.102, 4.424, 5.083, 2.585]),
    (0.875, 5, 95, [5.692, 5.893, 4.405, 5.777, 1.718]),
];

/// A cell of [`SKEWED`].
struct SkewedCase {
    rho: f64,
    data: u64,
    writes: u64,
    policy: &'static str,
    expected: f64,
}

fn skewed_cases() -> Vec<SkewedCase> {
    let policies = ["gc=greedy", "gc=fifo", "gc=greedy,frontiers=2", "gc=cost-benefit", "gc=cost-benefit,frontiers=2"];
    let rows = SKEWED.into_iter();
    rows.flat_map(|(rho, data, writes, values)| {
        let cells = policies.into_iter().zip(values);
        cells.map(move |(policy, expected)| SkewedCase { rho, data, writes, policy, expected })
    })
    .collect()
}

fn skewed(case: &SkewedCase) -> FlashReport {
    // 1,024 closed blocks, as in the independent simulation. Cold data take long to settle.
    let settings = format!("blocks=1028,rho={},{}", case.rho, case.policy.trim_start_matches("gc=greedy,"));
    let settings = settings.trim_end_matches(",gc=greedy").to_string();
    measure(&settings, 12.0, 8.0, hot_cold(case.data, case.writes))
}

#[test]
fn hot_and_cold_data_order_the_policies() {
    let cases = skewed_cases();
    let measured: Vec<f64> = parallel(&cases, skewed).iter().map(amplification).collect();
    for (case, measured) in cases.iter().zip(&measured) {
        let SkewedCase { rho, data, writes, policy, expected } = case;
        // With a second frontier, ties between victims matter.
        let tolerance = if policy.contains("frontiers=2") { 0.06 } else { 0.03 };
        let what = format!("rho {rho}, {data}/{writes} {policy}");
        within(&what, *measured, *expected, tolerance);
    }
    // For each rho, uniform writes come before skewed ones.
    for (uniform, rows) in [2.599, 3.949].into_iter().zip(measured.chunks(15)) {
        let mut before = uniform;
        for row in rows.chunks(5) {
            let [greedy, fifo, greedy_2, cost_benefit, cost_benefit_2] = row else {
                panic!("five policies a row");
            };
            // Skew makes greedy with one frontier worse, and a second frontier makes it better.
            assert!(greedy > &before && fifo > greedy && greedy_2 < greedy);
            // Cost-benefit is better only where cleaned data have their own block.
            assert!(cost_benefit >= greedy && cost_benefit_2 < greedy_2);
            before = *greedy;
        }
    }
}

/// MQSim on 512 blocks of 64 pages, 0.2 of them spare and 12 open or in its reserve, measured 41.40
/// copies per cleaning.
const MQSIM: f64 = 64.0 / (64.0 - 41.40);

fn as_mqsim() -> FlashReport {
    measure("blocks=503,rho=0.8192", 5.0, 10.0, uniform(17))
}

#[test]
fn mqsim_measures_the_same() {
    within("MQSim", amplification(&as_mqsim()), MQSIM, 0.01);
}

/// For these numbers of log blocks on 1,024 data blocks: BAST and FAST, measured in independent simulations.
const LOG_BLOCKS: [(u32, f64, f64); 3] = [(8, 64.49, 46.43), (32, 62.99, 23.01), (128, 56.96, 8.43)];

fn hybrid(&(layer, log_blocks): &(&str, u32)) -> FlashReport {
    let blocks = 1024 + log_blocks + 2;
    let settings = format!("blocks={blocks},rho=1,ftl={layer},log_blocks={log_blocks}");
    let settings = settings.replace(",log_blocks=32", "");
    measure(&settings, 1.0, 3.0, uniform(6))
}

fn hybrid_cases() -> Vec<(&'static str, u32)> {
    let layers = ["bast", "fast"].into_iter();
    layers.flat_map(|layer| LOG_BLOCKS.map(|(log_blocks, ..)| (layer, log_blocks))).collect()
}

#[test]
fn log_blocks_cost_what_their_closed_forms_say() {
    let cases = hybrid_cases();
    for (&(layer, log_blocks), report) in cases.iter().zip(parallel(&cases, hybrid)) {
        let what = format!("{layer}, {log_blocks} log blocks");
        assert_eq!(report.logical_pages, 65_536, "{what}");
        let measured = amplification(&report);
        let erases = report.erases as f64 / report.host_writes as f64;
        if layer == "bast" {
            within(&what, measured, closed_forms::bast(64, log_blocks, 1024), 0.01);
            within(&what, erases, 2.0 * (1.0 - f64::from(log_blocks) / 1024.0), 0.02);
        } else {
            within(&what, measured, closed_forms::fast(64, log_blocks, 1024), 0.04);
        }
        let row = LOG_BLOCKS.iter().find(|row| row.0 == log_blocks);
        let independent = row.map(|row| if layer == "bast" { row.1 } else { row.2 });
        within(&what, measured, independent.expect("a row"), 0.03);
        within(&what, report.predicted_write_amplification.expect("a form"), measured, 0.04);
    }
}

const ALL_LAYERS: [&str; 5] = ["ftl=block", "ftl=bast", "ftl=fast", "", "ftl=dftl,cmt=all"];

#[test]
fn layers_are_ordered_for_random_writes_and_equal_for_sequential_ones() {
    let settings = |layer: &&str| format!("blocks=512,rho=0.85,{layer}").trim_end_matches(',').to_string();
    let random = parallel(&ALL_LAYERS, |layer| measure(&settings(layer), 0.5, 1.5, uniform(8)));
    let random: Vec<f64> = random.iter().map(amplification).collect();
    assert!(random.is_sorted_by(|a, b| a >= b), "{random:?}");
    within("block mapping", random[0], 64.0, 0.005);
    assert_eq!(random[3], random[4]);

    for layer in ALL_LAYERS {
        let mut flash = device(&format!("{},precondition=full", settings(&layer)));
        let pages = flash.logical_pages();
        let mut at = 0;
        for round in 0..5 {
            let counted = pages - pages % 64;
            write(&mut flash, counted, || {
                at += 1;
                (at - 1) % counted
            });
            if round == 0 {
                flash.reset_counters();
            }
        }
        let report = flash.report();
        assert_eq!(report.programs, report.host_writes, "{layer}");
        within(layer, report.erases as f64, report.host_writes as f64 / 64.0, 0.001);
        assert_eq!((report.merges.partial, report.merges.full), (0, 0), "{layer}");
        assert_eq!(report.write_amplification, Some(1.0), "{layer}: {:?}", report.not_steady);
    }
}

#[test]
fn a_table_in_memory_makes_dftl_page_mapping() {
    for more in ["", ",gc=fifo", ",frontiers=2,gc=cost-benefit", ",wl=static:2"] {
        let run = |layer: &str| {
            let mut report = measure(&format!("blocks=256,rho=0.85{layer}{more}"), 1.0, 2.0, uniform(9));
            report.device.clear();
            report
        };
        assert_eq!(run(""), run(",ftl=dftl,cmt=all"), "{more}");
    }
}

#[test]
fn a_small_cached_table_costs_what_its_misses_cost() {
    let mut flash = device("blocks=512,rho=0.8,ftl=dftl,cmt=64,precondition=full");
    let pages = flash.logical_pages();
    flash.reset_counters();
    let mut draw = SplitMix(10);
    for _ in 0..20_000 {
        flash.read(draw.below(pages)).expect("endures");
    }
    // A miss reads a page of the table; dirty entries are written once.
    let report = flash.report();
    let misses = 1.0 - 64.0 / pages as f64;
    assert_eq!(report.reads_by_cause.host, 20_000);
    within("reads", report.reads_by_cause.map as f64, 20_000.0 * misses, 0.003);
    // The 64 last pages of the sequential fill share one page of the table, or two.
    assert!((1..=2).contains(&report.programs_by_cause.map), "{report:?}");

    // With one entry in memory a write misses, evicts a dirty entry (one read, one program) and reads
    // its own, as long as nothing is cleaned.
    let mut flash = device("blocks=512,rho=0.3,ftl=dftl,cmt=1,precondition=full");
    let pages = flash.logical_pages();
    flash.reset_counters();
    write(&mut flash, 2_000, || draw.below(pages));
    let report = flash.report();
    assert_eq!(report.erases, 0);
    let misses = 2_000.0 * (1.0 - 1.0 / pages as f64);
    within("map reads", report.reads_by_cause.map as f64, 2.0 * misses, 0.005);
    within("map programs", report.programs_by_cause.map as f64, misses, 0.005);

    // Cleaning has to update the table too, so it costs more than page mapping, and less the more of
    // the table is in memory.
    let settings = ["cmt=512", "cmt=8192", "cmt=all"];
    let runs = parallel(&settings, |cmt| measure(&format!("blocks=512,rho=0.8,ftl=dftl,{cmt}"), 2.0, 2.0, uniform(11)));
    let runs: Vec<f64> = runs.iter().map(amplification).collect();
    assert!(runs.is_sorted_by(|a, b| a > b), "{runs:?}");
    // The table must not crowd out the data, whichever block is cleaned and however little space is spare.
    let tight = ["gc=greedy,rho=0.93", "gc=fifo,rho=0.93", "gc=random,rho=0.9", "gc=cost-benefit,rho=0.93"];
    for (settings, report) in tight.iter().zip(parallel(&tight, |settings| {
        let settings = settings.trim_start_matches("gc=greedy,");
        measure(&format!("blocks=512,{settings},ftl=dftl,cmt=16"), 0.5, 0.5, uniform(16))
    })) {
        assert!(amplification(&report) < 60.0, "{settings}: {}", amplification(&report));
    }
}

#[test]
fn merges_take_the_time_of_their_operations() {
    // 64 copies of 25 + 220 us and two erases of 1,500 us; with the bus two transfers of 52.8 us.
    for (bus, copy, program) in [("", 245.0, 220.0), (",bus=include", 245.0 + 105.6, 272.8)] {
        let settings = format!("blocks=20,rho=1,ftl=bast,log_blocks=1{bus},precondition=full");
        let full_merge = 64.0 * copy + 3000.0;
        let mut flash = device(&settings);
        assert_eq!(flash.write(7).expect("endures").micros(), program);
        let merged = flash.write(64 + 3).expect("endures").micros();
        assert!((merged - full_merge - program).abs() < 1e-6, "{merged}");

        // One page in order: the other 63 are copied, one block is erased.
        let mut flash = device(&settings);
        flash.write(64).expect("endures");
        let merged = flash.write(0).expect("endures").micros();
        assert!((merged - (63.0 * copy + 1500.0) - program).abs() < 1e-6, "{merged}");

        // All pages in order: one erase.
        let mut flash = device(&settings);
        let times: Vec<f64> = (0..64).map(|page| flash.write(page).expect("endures").micros()).collect();
        assert!((times[63] - 1500.0 - program).abs() < 1e-6, "{times:?}");
        let merges = flash.report().merges;
        assert_eq!((merges.switch, merges.partial, merges.full), (1, 0, 0));
        assert!((flash.report().device_seconds * 1e6 - times.iter().sum::<f64>()).abs() < 1e-3);
    }
}

#[test]
fn reclaiming_a_shared_log_block_is_a_latency_spike() {
    // Random writes fill the only random log block with pages of 64 logical blocks; the next write
    // merges them all.
    let mut flash = device("blocks=100,rho=1,ftl=fast,log_blocks=2,precondition=full");
    for block in 0..64 {
        flash.write(block * 64 + 5).expect("endures");
    }
    let spike = flash.write(70 * 64 + 5).expect("endures").micros();
    assert!((spike - 64.0 * (64.0 * 245.0 + 1500.0) - 1500.0 - 220.0).abs() < 1e-3, "{spike}");
    let report = flash.report();
    assert_eq!((report.merges.full, report.erases), (64, 65));
    assert_eq!(report.write_time.max_us, spike);
}

#[test]
fn wear_levelling_keeps_hot_blocks_from_wearing_out_alone() {
    let settings = ["wl=none", "wl=dynamic", "wl=static:10"];
    for layer in ["frontiers=2", "ftl=bast", "ftl=fast"] {
        let runs = parallel(&settings, |wear| {
            let name = format!("blocks=256,rho=0.8,{layer},{wear}").replace(",wl=none", "");
            let mut flash = device(&format!("{name},precondition=full"));
            let mut draw = SplitMix(12);
            let pages = flash.logical_pages() / 20;
            write(&mut flash, 150_000, || draw.below(pages));
            flash.report()
        });
        let [none, _, levelled] = &runs[..] else {
            panic!("three runs");
        };
        // Cold data occupy their blocks for ever, unless they are moved.
        assert_eq!(none.wear.min, 0, "{layer}");
        assert!(none.wear.max > 25, "{layer}: {:?}", none.wear);
        assert!(levelled.wear.max - levelled.wear.min <= 14, "{layer}: {:?}", levelled.wear);
        assert!(levelled.wear.evenness > none.wear.evenness, "{layer}");
        assert!(levelled.programs_by_cause.wear > 0 && levelled.erases_by_cause.wear > 0);
        assert_eq!(none.programs_by_cause.wear, 0);
    }
}

#[test]
fn a_run_that_is_not_steady_says_so() {
    let mut flash = device("blocks=256,rho=0.8");
    let pages = flash.logical_pages();
    write(&mut flash, 1000, || 7);
    let report = flash.report();
    assert_eq!((report.write_amplification, report.lifetime_host_bytes), (None, None));
    assert!(report.not_steady.is_some_and(|why| why.contains("no block has been erased")));
    let mut draw = SplitMix(13);
    write(&mut flash, pages, || draw.below(pages));
    assert_eq!(flash.report().write_amplification, None);
    write(&mut flash, 12 * pages, || draw.below(pages));
    let report = flash.report();
    assert_eq!(report.not_steady, None);
    let settled = report.write_amplification.expect("steady");
    within("uniform", settled, report.predicted_write_amplification.expect("a form"), 0.03);

    // blocks x pages x bytes x endurance / write amplification: the run is too short to measure the spread.
    let lifetime = 256.0 * 64.0 * 2048.0 * 100_000.0 / settled;
    assert!(report.lifetime_assumes.as_ref().is_some_and(|text| text.contains("too few")));
    within("lifetime", report.lifetime_host_bytes.expect("steady"), lifetime, 1e-12);
    within("days", report.lifetime_days(1e9).expect("steady"), lifetime / 1e9, 1e-12);
    assert_eq!(report.lifetime_days(0.0), None);
}

#[test]
fn preconditioning_settles_write_amplification() {
    let mut flash = device("blocks=1024,rho=0.8,precondition=steady");
    let pages = flash.logical_pages();
    let mut draw = SplitMix(14);
    write(&mut flash, pages, || draw.below(pages));
    within("from the first write", amplification(&flash.report()), 2.599, 0.015);
}

#[test]
fn more_dies_shorten_cleaning_but_change_no_counts() {
    let run = |dies: &str| measure(&format!("blocks=256,rho=0.8{dies}"), 1.0, 1.0, uniform(15));
    let (one, four) = (run(""), run(",dies=4,channels=2"));
    assert_eq!((one.programs, one.erases), (four.programs, four.erases));
    assert!(four.device_seconds < 0.98 * one.device_seconds);
    assert!(four.device_seconds > 0.25 * one.device_seconds);
}

#[test]
#[ignore = "prints the tables of docs/flash-model.md"]
fn tables() {
    let cases = greedy_cases();
    println!("greedy: rho, pages a block, measured, closed form");
    for (&(rho, pages), report) in cases.iter().zip(parallel(&cases, greedy)) {
        let form = closed_forms::greedy(rho, pages).unwrap_or(f64::NAN);
        println!("{rho:.4} {pages:>4} {:.3} {form:.3}", amplification(&report));
    }
    println!("fifo: rho, measured, closed form");
    for rho in RHOS {
        let report = measure(&format!("blocks={BLOCKS},rho={rho},gc=fifo"), 5.0, 5.0, uniform(2));
        let form = closed_forms::fifo(rho).unwrap_or(f64::NAN);
        println!("{rho:.4} {:.3} {form:.3}", amplification(&report));
    }
    println!("hot and cold: rho, data %, writes %, policy, measured, independent simulation");
    let cases = skewed_cases();
    for (case, report) in cases.iter().zip(parallel(&cases, skewed)) {
        println!(
            "{} {}/{} {} {:.3} {:.3}",
            case.rho,
            case.data,
            case.writes,
            case.policy,
            amplification(&report),
            case.expected
        );
    }
    let measured = amplification(&as_mqsim());
    println!("MQSim's device: measured {measured:.3}, by MQSim {MQSIM:.3}");
    println!("log blocks: layer, log blocks, measured, closed form, erases a write");
    let cases = hybrid_cases();
    for (&(layer, log_blocks), report) in cases.iter().zip(parallel(&cases, hybrid)) {
        let form = report.predicted_write_amplification.unwrap_or(f64::NAN);
        let erases = report.erases as f64 / report.host_writes as f64;
        println!("{layer} {log_blocks:>4} {:.2} {form:.2} {erases:.3}", amplification(&report));
    }
    println!("random writes: layer, measured");
    let layers = ALL_LAYERS.iter().filter(|layer| !layer.starts_with("ftl=dftl"));
    for layer in layers {
        let settings = format!("blocks=512,rho=0.85,{layer}");
        let report = measure(settings.trim_end_matches(','), 0.5, 1.5, uniform(8));
        println!("{layer} {:.3}", amplification(&report));
    }
    println!("wear levelling, uniform writes: measured, standard deviation and mean of erases");
    for wear in ["", ",wl=static:4", ",wl=static:20"] {
        let report = measure(&format!("blocks={BLOCKS},rho=0.8{wear}"), 5.0, 5.0, uniform(4));
        let (amplification, wl) = (amplification(&report), &report.wear);
        println!("{wear} {amplification:.3} {:.2} {:.1}", wl.sd, wl.mean);
    }
    println!("DFTL: cached entries, measured");
    for cmt in ["cmt=512", "cmt=8192", "cmt=32768", "cmt=all"] {
        let settings = format!("blocks=1024,rho=0.8,ftl=dftl,{cmt}");
        println!("{cmt} {:.3}", amplification(&measure(&settings, 3.0, 3.0, uniform(11))));
    }
}

mod whole {
    use super::*;

    #[test]
    fn greedy_agrees_with_the_mean_field() {
        let cases = greedy_cases();
        for (&(rho, pages), report) in cases.iter().zip(parallel(&cases, greedy)) {
            let what = format!("rho {rho:.4}, {pages} pages a block");
            let expected = closed_forms::greedy(rho, pages).expect("in range");
            within(&what, amplification(&report), expected, 0.01);
            let predicted = report.predicted_write_amplification.expect("a form");
            within(&what, predicted, expected, 0.002);
            within(&what, report.rho_eff, rho, 0.0002);
            // One block is erased for each block's worth of programs.
            let erases = report.erases as f64 * f64::from(pages) / report.programs as f64;
            within(&what, erases, 1.0, 0.0005);
            assert_eq!(report.programs_by_cause.host, report.host_writes);
            if let Some(settled) = report.write_amplification {
                within(&what, settled, expected, 0.01);
            }
        }
    }
}
