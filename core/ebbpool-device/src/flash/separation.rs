//! Hot and cold data in separate blocks, placed by an oracle, compared with theory.

use super::closed_forms;
use super::ftl::{PageMapped, Placement, ResidentMap, RotationPlan};
use super::{Flash, FlashConfig, Layer};

/// Blocks in rotation, as in the independent simulations.
const IN_ROTATION: u32 = 1024;
const PAGES_PER_BLOCK: u32 = 64;
/// Both frontiers may need a block while one is cleaned.
const RESERVE: u32 = 3;

/// Write amplification of groups of data that never share a block, each with a share `data` of the
/// pages and `writes` of the writes: spare blocks are distributed by the square root of the product
/// (Stoica and Ailamaki), and each group behaves as a FIFO device of its own.
fn separated(rho: f64, groups: &[(f64, f64)]) -> f64 {
    let weights: f64 = groups.iter().map(|(data, writes)| (data * writes).sqrt()).sum();
    let spare = 1.0 / rho - 1.0;
    let of_group = |&(data, writes): &(f64, f64)| {
        let physical = data + spare * (data * writes).sqrt() / weights;
        writes * closed_forms::fifo(data / physical).expect("in range")
    };
    groups.iter().map(of_group).sum()
}

/// Programs per host write, with an oracle that separates the first `data` per cent of the pages,
/// which get `writes` per cent of the writes, from the rest.
fn with_oracle(rho: f64, data: u32, writes: u64, gc: &str) -> f64 {
    let blocks = IN_ROTATION + 2 + RESERVE;
    let name = format!("flash:slc-mt29f4g08aaa,blocks={blocks},frontiers=2,gc={gc}");
    let config: FlashConfig = name.parse().expect("a device");
    let pages = (rho * f64::from(IN_ROTATION * PAGES_PER_BLOCK)) as u32;
    let hot = pages * data / 100;
    let plan = RotationPlan { placement: Placement::ColdApart { first: hot }, reserve: RESERVE, ..Layer::plan(&config, pages) };
    let mut flash = Flash::new(&config).expect("it can be made");
    flash.logical_pages = pages;
    flash.layer = Layer::PageMap(PageMapped::new(blocks, plan, ResidentMap));
    for page in 0..pages {
        flash.write(page.into()).expect("room");
    }
    // splitmix64, so that the workload does not come from the code under test.
    let mut state = 3_u64;
    let mut below = |bound: u32| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = ebbpool_cost::mixed(state);
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    };
    let mut write = |flash: &mut Flash, count: u32| {
        for _ in 0..count {
            let page = match below(100) < writes {
                true => below(hot),
                false => u64::from(hot) + below(pages - hot),
            };
            flash.write(page).expect("room");
        }
    };
    write(&mut flash, 12 * pages);
    flash.reset_counters();
    write(&mut flash, 8 * pages);
    let report = flash.report();
    report.programs as f64 / report.host_writes as f64
}

/// rho, per cent of the data, per cent of the writes; then the results of independent simulations of
/// greedy and of cost-benefit with an oracle, and the theoretical optimum of separated groups.
const EXPECTED: [(f64, u32, u64, [f64; 3]); 6] = [
    (0.8, 20, 80, [2.560, 2.028, 1.998]),
    (0.8, 10, 90, [2.500, 1.492, 1.481]),
    (0.8, 5, 95, [2.415, 1.200, 1.201]),
    (0.875, 20, 80, [3.869, 3.019, 2.938]),
    (0.875, 10, 90, [3.740, 2.036, 1.987]),
    (0.875, 5, 95, [3.560, 1.451, 1.440]),
];

fn relative_error(measured: f64, expected: f64) -> f64 {
    (measured / expected - 1.0).abs()
}

#[test]
fn cost_benefit_with_an_oracle_comes_close_to_separated_groups() {
    for (rho, data, writes, [greedy, cost_benefit, optimum]) in EXPECTED {
        let what = format!("rho {rho}, {data} % of the data");
        let groups =
            [(f64::from(data) / 100.0, writes as f64 / 100.0), (1.0 - f64::from(data) / 100.0, 1.0 - writes as f64 / 100.0)];
        let theory = separated(rho, &groups);
        assert!(relative_error(theory, optimum) < 0.007, "{what}: {theory} for {optimum}");
        let measured = with_oracle(rho, data, writes, "cost-benefit");
        println!("{what}: cost-benefit {measured:.3} / {cost_benefit}, theory {theory:.3}");
        assert!(relative_error(measured, cost_benefit) < 0.03, "{what}: {measured}");
        assert!(relative_error(measured, optimum) < 0.03, "{what}: {measured}");
        let measured = with_oracle(rho, data, writes, "greedy");
        println!("{what}: greedy {measured:.3} / {greedy}");
        assert!(relative_error(measured, greedy) < 0.03, "{what}: {measured}");
    }
}
