//! Tests of `informed`, the policy that knows the probabilities of references: against its model, against the other
//! policies, and against what can be computed from the probabilities alone.

#[allow(dead_code, reason = "the list of all policies is for the other tests")]
use std::collections::{BTreeMap, BTreeSet};

use crate::common::{QUIET, cell, file};
use ebbpool_model::workload::RandomWorkload;
use ebbpool_model::{ModelEvent, model};
use ebbpool_policy::{Capabilities, registry};
use ebbpool_sim::bound::{BoundQuestion, RecordedTrace, solve};
use ebbpool_sim::{AtEnd, BufferSize, Counts, NoStore, SimCell, SimError, SimOptions, Sweep, Warmup, simulate};
use ebbpool_trace::{Batch, PageProbability, Source};

fn source(spec: &str) -> Source {
    Source::parse(spec, None).expect("a generator")
}

fn references(source: &Source) -> Vec<(u64, bool)> {
    let mut reader = source.open().expect("a trace");
    let (mut batch, mut all) = (Batch::new(), Vec::new());
    while reader.next_batch(&mut batch, 1 << 12).expect("references") {
        all.extend(batch.iter());
    }
    all
}

/// The probabilities of the pages numbered from 0.
fn probabilities(source: &Source, pages: u64) -> Vec<PageProbability> {
    let known = source.page_probabilities().expect("memory");
    let known = known.expect("the generator knows them");
    (0..pages).map(|page| known.for_page(page)).collect()
}

fn counted(source: &Source, cells: &[SimCell], warmup: u64) -> Vec<Counts> {
    // The bounds below are those of references, without an end.
    let options = SimOptions { warmup, at_end: AtEnd::Free, threads: 2, ..SimOptions::default() };
    let outcome = simulate(source, cells, &options, &QUIET);
    outcome.expect("a simulation").counts
}

/// The bill per reference.
fn bill(counts: &Counts, asymmetry: f64) -> f64 {
    (counts.misses as f64 + asymmetry * counts.writes as f64) / counts.references as f64
}

/// p + R w of each page, the greatest first: the cost per reference of a page that is never resident.
fn values(pages: &[PageProbability], asymmetry: f64) -> Vec<(f64, PageProbability)> {
    let value = |page: &PageProbability| page.reference + asymmetry * page.write;
    let mut values: Vec<_> = pages.iter().map(|page| (value(page), *page)).collect();
    values.sort_by(|one, other| other.0.total_cmp(&one.0));
    values
}

/// No policy that does not know the references to come costs less per reference in the long run: if a frame could be
/// rented for any time, a page would be held always or never (docs/bounds.md).
fn least_cost(pages: &[PageProbability], frames: usize, asymmetry: f64) -> f64 {
    let values = values(pages, asymmetry);
    values[frames..].iter().map(|(value, _)| value).sum()
}

/// The cost per reference that `informed` tends to. In the end all frames but one have the pages of the greatest values
/// for ever. The other pages take turns in the last frame: a page is read where the one before it in that frame is
/// another, and is written back where one of its references in a row is a write.
fn limit(pages: &[PageProbability], frames: usize, asymmetry: f64) -> f64 {
    let values = values(pages, asymmetry);
    let others = &values[frames - 1..];
    let all: f64 = others.iter().map(|(_, page)| page.reference).sum();
    let cost = |(_, page): &(f64, PageProbability)| {
        let again = page.reference / all;
        let clean = 1.0 - page.write / page.reference;
        let written = match page.write > 0.0 {
            true => page.write * (1.0 - again) / (1.0 - again * clean),
            false => 0.0,
        };
        page.reference * (1.0 - again) + asymmetry * written
    };
    others.iter().map(cost).sum()
}

/// The misses and writes of the model after a warm-up.
fn modelled(spec: &str, trace: &[(u64, bool)], pages: &[PageProbability], cell: &SimCell, warmup: usize) -> (u64, u64) {
    let mut model = model(spec, cell.frames as usize);
    model.costs(cell.asymmetry);
    let known = (0..).zip(pages);
    let known = known.map(|(page, it)| (page, (it.reference, it.write)));
    model.probabilities(&known.collect::<BTreeMap<u64, _>>());
    let (mut misses, mut writes) = (0, 0);
    for (at, &(page, write)) in trace.iter().enumerate() {
        for event in model.reference(page, write, None, &BTreeSet::new()) {
            let counts = u64::from(at >= warmup);
            match event {
                ModelEvent::Read(_) => misses += counts,
                ModelEvent::Write(_) => writes += counts,
                _ => {}
            }
        }
    }
    (misses, writes)
}

#[test]
fn simulations_agree_with_the_model() {
    for spec in [
        "zipf:pages=300,refs=6000,read-alpha=0.6,write-alpha=1.2,write=0.4",
        "zipf:pages=300,refs=6000,read-alpha=0.8,write=0.4,shared=true",
        "self-similar:pages=200,refs=6000,shuffled=true",
        "uniform:pages=100,refs=6000,write=0.5",
    ] {
        let source = source(spec);
        let trace = references(&source);
        let pages = probabilities(&source, 300);
        for policy in ["informed", "ace:policy=informed,batch=4"] {
            let cells = [(1, 4.0), (7, 0.0), (7, 32.0), (60, 1.0)].map(|(frames, asymmetry)| cell(policy, frames, asymmetry));
            for warmup in [0, 2500] {
                let counts = counted(&source, &cells, warmup);
                for (counts, cell) in counts.iter().zip(&cells) {
                    let expected = modelled(policy, &trace, &pages, cell, warmup as usize);
                    let context = format!("{policy}, {cell:?}, {spec}");
                    assert_eq!((counts.misses, counts.writes), expected, "{context}");
                }
            }
        }
    }
}

/// Three pages and two frames, by hand. Page 0 is referenced by half of the references and never written; page 1 by two
/// of six, all of them writes; page 2 by one of six, a read. With R = 4, page 1 is worth 1/3 while it is clean and
/// 1/3 + 4/3 while it is dirty, and page 0 is worth 1/2.
#[test]
fn three_pages_by_hand() {
    let page = |reference, write| PageProbability { reference, write };
    let pages = [page(1.0 / 2.0, 0.0), page(1.0 / 3.0, 1.0 / 3.0), page(1.0 / 6.0, 0.0)];
    // R0 W1 R2: 1 is dirty, so 0 is evicted. R0: 2 is evicted, worth 1/6. W1 hits. R2: 0, again.
    let round = [(0, false), (1, true), (2, false)];
    let trace = [round, round].concat();
    let with = |asymmetry| modelled("informed", &trace, &pages, &cell("informed", 2, asymmetry), 0);
    assert_eq!(with(4.0), (5, 0));
    // If writes are free, 1 is worth 1/3: R2 evicts and writes it, R0 hits, W1 evicts 2, R2 evicts and writes 1.
    assert_eq!(with(0.0), (5, 2));
    // Page 1 remains for ever. Of the others 3/4 of the references are to page 0 and 1/4 to page 2, and each reference
    // that follows one to the other page is a miss: 2/3 * 2 * 3/4 * 1/4.
    assert!((limit(&pages, 2, 4.0) - 0.25).abs() < 1e-12);
    assert!((least_cost(&pages, 2, 4.0) - 1.0 / 6.0).abs() < 1e-12);
    // Both remain if there is room.
    assert!((limit(&pages, 3, 4.0) - 0.0).abs() < 1e-12);
}

/// Once warm, the cost is that of the best pages for ever, as computed from the probabilities. The standard error of
/// the mean over 300,000 references is at most 1 % here.
#[test]
fn the_cost_tends_to_that_of_the_best_pages() {
    for (generator, pages) in [
        ("zipf:pages=30,refs=600000,read-alpha=0.6,write-alpha=1.2,write=0.4", 30),
        ("zipf:pages=30,refs=600000,read-alpha=1,write=0.3,shared=true", 30),
        ("self-similar:pages=25,refs=600000,write=0.5,seed=7", 25),
        ("uniform:pages=12,refs=600000,write=0.2", 12),
    ] {
        let source = source(generator);
        let known = probabilities(&source, pages);
        for asymmetry in [0.0, 1.0, 16.0] {
            let frames = [1, 2, 5, 9];
            let cells = frames.map(|frames| cell("informed", frames, asymmetry));
            for (counts, frames) in counted(&source, &cells, 300_000).iter().zip(frames) {
                let limit = limit(&known, frames as usize, asymmetry);
                let ratio = bill(counts, asymmetry) / limit;
                let context = format!("{generator}, {frames} frames, R = {asymmetry}: {ratio}");
                assert!((0.97..1.03).contains(&ratio), "{context}");
                assert!(limit >= least_cost(&known, frames as usize, asymmetry) - 1e-9, "{context}");
            }
        }
    }
}

const LARGER: [&str; 3] = [
    "zipf:pages=1500,refs=90000,read-alpha=0.6,write-alpha=1.2,write=0.3",
    "zipf:pages=1500,refs=90000,read-alpha=0.8,write=0.3",
    "zipf:pages=1500,refs=90000,read-alpha=1,write=0.2,shared=true",
];

/// The least cost per reference of any policy that knows the probabilities and the past: relative value iteration over
/// all contents of the buffer.
fn best_cost(pages: &[PageProbability], frames: usize, asymmetry: f64) -> f64 {
    type Buffer = Vec<(usize, bool)>;
    let mut buffers: Vec<Buffer> = vec![Vec::new()];
    for page in 0..pages.len() {
        let with =
            buffers.clone().into_iter().flat_map(|buffer| [false, true].map(|dirty| [&buffer[..], &[(page, dirty)]].concat()));
        buffers.extend(with.collect::<Vec<_>>());
    }
    buffers.retain(|buffer| buffer.len() == frames);
    buffers.sort_unstable();
    let index = |mut buffer: Buffer| {
        buffer.sort_unstable();
        buffers.binary_search(&buffer).expect("a full buffer")
    };
    // For each buffer the references with their probability, and the ways to serve each, with their cost.
    let steps = |buffer: &Buffer| {
        let mut steps: Vec<(f64, Vec<(f64, usize)>)> = Vec::new();
        for (page, it) in pages.iter().enumerate() {
            for (write, probability) in [(false, it.reference - it.write), (true, it.write)] {
                let found = buffer.iter().position(|&(other, _)| other == page);
                let replaced = |at: usize, page: usize, dirty: bool| {
                    let mut buffer = buffer.clone();
                    buffer[at] = (page, dirty);
                    index(buffer)
                };
                let ways = match found {
                    Some(at) => vec![(0.0, replaced(at, page, buffer[at].1 || write))],
                    None => (0..frames)
                        .map(|at| {
                            let cost = 1.0 + if buffer[at].1 { asymmetry } else { 0.0 };
                            (cost, replaced(at, page, write))
                        })
                        .collect(),
                };
                steps.push((probability, ways));
            }
        }
        steps
    };
    let steps: Vec<_> = buffers.iter().map(steps).collect();
    let mut costs = vec![0.0; buffers.len()];
    for _ in 0..20_000 {
        let next = |steps: &Vec<(f64, Vec<(f64, usize)>)>| -> f64 {
            let each = steps.iter().map(|(probability, ways)| {
                let ways = ways.iter().map(|&(cost, to)| cost + costs[to]);
                probability * ways.fold(f64::INFINITY, f64::min)
            });
            each.sum()
        };
        let after: Vec<f64> = steps.iter().map(next).collect();
        let grown = after.iter().zip(&costs).map(|(after, before)| after - before);
        let (least, most) = grown.fold((f64::INFINITY, f64::NEG_INFINITY), |range, it| (range.0.min(it), range.1.max(it)));
        if most - least < 1e-9 {
            return (least + most) / 2.0;
        }
        let base = after[0];
        costs = after.iter().map(|cost| cost - base).collect();
    }
    panic!("the values do not settle");
}

/// The best of all policies that know the probabilities, whatever they do, is above the least cost, and `informed` at
/// most the value of one page above that. In buffers of two or three frames that is much; it is next to nothing where
/// there are many pages.
#[test]
fn the_best_policy_that_knows_the_probabilities_is_within_the_value_of_a_page() {
    let mut random = RandomWorkload::new(1);
    for _ in 0..12 {
        let count = 3 + random.below(3) as usize;
        let frames = 2 + random.below(count as u64 - 2) as usize;
        let asymmetry = [0.5, 1.0, 4.0, 16.0][random.below(4) as usize];
        let weights: Vec<u64> = (0..count).map(|_| 1 + random.below(40)).collect();
        let sum: u64 = weights.iter().sum();
        let pages: Vec<PageProbability> = weights
            .iter()
            .map(|&weight| PageProbability {
                reference: weight as f64 / sum as f64,
                write: (1 + random.below(weight)) as f64 / sum as f64 / 1.01,
            })
            .collect();
        let best = best_cost(&pages, frames, asymmetry);
        let informed = limit(&pages, frames, asymmetry);
        let context = format!("{frames} frames, R = {asymmetry}, {pages:?}: {best} {informed}");
        assert!(informed >= best - 1e-6, "{context}");
        let least = least_cost(&pages, frames, asymmetry);
        assert!(best >= least - 1e-6, "{context}");
        let (value, _) = values(&pages, asymmetry)[frames - 1];
        assert!(informed <= least + value + 1e-6, "{context}");
    }
}

#[test]
fn a_trace_without_probabilities_is_refused_before_it_is_read() {
    let (_directory, stored) = file(&[(1, false), (2, true)], "t.txt");
    let zipf = "zipf:pages=10,refs=100".to_string();
    let twice = Source::concat(&[zipf.clone(), zipf], &Default::default()).expect("two parts");
    for source in [stored, twice, source("scan-mix:refs=100"), source("tpcc")] {
        for policy in ["informed", "ace:policy=informed"] {
            let cells = [cell("lru", 2, 1.0), cell(policy, 2, 1.0)];
            let error = simulate(&source, &cells, &SimOptions::default(), &QUIET);
            let sweep = Sweep {
                policies: cells.iter().map(|cell| cell.policy.clone()).collect(),
                sizes: vec![BufferSize::Frames(2)],
                asymmetries: vec!["1".parse().expect("an asymmetry")],
                warmup: Warmup::References(0),
                options: SimOptions::default(),
                time_lines: false,
                device: None,
            };
            let swept = sweep.run(&source, &NoStore, &QUIET);
            for error in [error.map(drop), swept.map(drop)] {
                let error = error.expect_err("no probabilities");
                assert!(matches!(error, SimError::NoProbabilities { .. }), "{error}");
                let text = error.to_string();
                assert!(text.starts_with(source.label()), "{text}");
                assert!(text.ends_with("one of zipf, uniform, self-similar"), "{text}");
            }
        }
    }
}

mod whole {
    use super::*;

    /// Once warm, no online policy costs less. On one string chance may favour another policy by a little, hence half a
    /// per cent.
    #[test]
    fn no_online_policy_costs_less() {
        const SLACK: f64 = 0.005;
        for generator in LARGER {
            let source = source(generator);
            let known = probabilities(&source, 1500);
            for asymmetry in [1.0, 16.0] {
                let online = registry::entries().iter();
                let online = online.filter(|entry| entry.online() && !entry.capabilities.contains(Capabilities::ERASE_COUNTS));
                let names = online.map(|entry| entry.name).chain(["informed"]);
                let names: Vec<&str> = names.collect();
                let cells = |frames| names.iter().map(move |name| cell(name, frames, asymmetry));
                let cells: Vec<SimCell> = [15, 90].into_iter().flat_map(cells).collect();
                let counts = counted(&source, &cells, 45_000);
                let sizes = counts.chunks(names.len()).zip(cells.chunks(names.len()));
                for (counts, cells) in sizes {
                    let frames = cells[0].frames as usize;
                    let bills: Vec<f64> = counts.iter().map(|it| bill(it, asymmetry)).collect();
                    let informed = bills[names.len() - 1];
                    let least = least_cost(&known, frames, asymmetry);
                    for (name, bill) in names.iter().zip(&bills) {
                        let context = format!("{name}, {frames} frames, R = {asymmetry}, {generator}");
                        assert!(informed <= (1.0 + SLACK) * bill, "{context}: {bill} {informed}");
                        assert!(*bill >= (1.0 - 4.0 * SLACK) * least, "{context}: {bill} {least}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_offline_bound_is_below() {
        for generator in LARGER {
            let source = source(&generator.replace("refs=90000", "refs=20000"));
            let trace = RecordedTrace::read(&source, &QUIET).expect("a trace");
            for (frames, asymmetry) in [(15, 1.0), (90, 16.0)] {
                let question = BoundQuestion { frames, asymmetry, at_end: AtEnd::Free, warmup: 0 };
                let bound = solve(&trace, &question, &QUIET).lower_bound;
                let counts = counted(&source, &[cell("informed", frames, asymmetry)], 0);
                let whole = bill(&counts[0], asymmetry) * counts[0].references as f64;
                assert!(bound <= whole, "{generator}: {bound} {whole}");
            }
        }
    }
}
