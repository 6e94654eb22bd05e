//! Tests of `informed`, which knows the probabilities of references, in all commands that simulate.

use crate::harness::Ebbpool;

const ZIPF: &str = "zipf:pages=2000,refs=60000,read-alpha=0.6,write-alpha=1.2,write=0.3";

#[test]
fn other_traces_are_refused_with_the_generators_that_know_their_probabilities() {
    let ebbpool = Ebbpool::in_scratch();
    let file = ebbpool.file("t.txt", "W 1\nR 2\nR 1\n");
    let words = ["informed", "probabilities", "zipf, uniform, self-similar"];
    for trace in [file.as_str(), "tpcc:warehouses=1,refs=1000", "scan-mix:refs=1000"] {
        for policy in ["informed", "ace:policy=informed"] {
            let run = ["run", trace, "--policy", policy, "--frames", "2"];
            ebbpool.refused(&run, 2, &words);
            let policies = format!("lru,{policy}");
            for command in ["compare", "curve"] {
                ebbpool.refused(&[command, trace, "--policies", &policies], 2, &words);
            }
        }
    }
}

#[test]
fn all_leaves_it_out_and_a_list_may_name_it() {
    let ebbpool = Ebbpool::in_scratch();
    let frames = ["--frames", "60", "--asymmetry", "4"];
    let compared = |policies: &str| {
        let args = ["compare", ZIPF, "--policies", policies];
        let rows = ebbpool.rows(&[&args[..], &frames].concat());
        let name = |row: &serde_json::Value| row["policy"].as_str().expect("a name").to_string();
        rows.iter().map(name).collect::<Vec<String>>()
    };
    assert!(!compared("all").contains(&"informed".to_string()));
    assert_eq!(compared("lru,informed"), ["lru", "informed"]);
}

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
    assert_eq!(text.lines().last(), Some(says.as_str()), "{text}");
    // Nor is an offline policy the one to take.
    assert!(text.contains("asymmetries ebb is the one to take"), "{text}");

    let one = table(&format!("{} --policies lru,informed --frames 20 --asymmetry 4", base[..2].join(" ")));
    assert!(one.contains("lru, the best online policy here, costs "), "{one}");
    assert!(!table(&of_sizes("lru,ebb", "20")).contains("informed"));
    assert!(!table(&of_sizes("informed,cost-belady", "20")).contains("best online policy"));
}
