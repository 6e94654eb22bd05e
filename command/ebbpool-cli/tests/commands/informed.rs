//! Tests of `informed`, which knows the probabilities of references, in all commands that simulate.

use crate::harness::Ebbpool;

crate::table::table!("informed");

const ZIPF: &str = "zipf:pages=2000,refs=60000,read-alpha=0.6,write-alpha=1.2,write=0.3";

#[test]
fn compare_says_how_far_the_best_online_policy_is() {
    let ebbpool = Ebbpool::in_scratch();
    let base = ["compare", ZIPF, "--warmup", "50%", "--policies"];
    let of_sizes = |policies: &str, frames: &str| {
        let more = [policies, "--frames", frames, "--asymmetry", "1,16"];
        [&base[..], &more].concat().join(" ")
    };
    let table = |line: &str| ebbpool.stdout(&line.split(' ').collect::<Vec<_>>());
    let line = of_sizes("lru,ebb,cost-belady,informed", "20,100");
    let rows = ebbpool.rows(&line.split(' ').collect::<Vec<_>>());
    let costs = |policy: &str| -> Vec<f64> {
        let own = rows.iter().filter(|row| row["policy"] == policy);
        own.map(|row| row["cost"].as_f64().expect("a cost")).collect()
    };
    let ratios = costs("ebb").into_iter().zip(costs("informed"));
    let ratios: Vec<f64> = ratios.map(|(ebb, informed)| ebb / informed).collect();
    assert_eq!(ratios.len(), 4);
    let mean = ratios.iter().product::<f64>().powf(0.25);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let says = format!(
        "ebb, the best online policy here, costs on average {mean:.3} and at most {most:.3} times as much as informed, which knows the probabilities of references"
    );
    let text = table(&line);
    assert!(text.lines().any(|line| line == says), "{text}");
    // Nor is an offline policy the one to take.
    assert!(text.contains("ebb is the "), "{text}");

    let one = table(&format!("{} --policies lru,informed --frames 20 --asymmetry 4", base[..2].join(" ")));
    assert!(one.contains("lru, the best online policy here, costs "), "{one}");
    assert!(!table(&of_sizes("lru,ebb", "20")).contains("informed"));
    assert!(!table(&of_sizes("informed,cost-belady", "20")).contains("best online policy"));
}
