//! Asks the lab four questions about one trace: compare, curve, bound and run.
//!
//! ```text
//! cargo run --release -p ebbpool-lab --example questions -- lab/ebbpool-trace/traces/pg-tpcb.parquet
//! ```

use std::error::Error;

use ebbpool_lab::advice::Answer;
use ebbpool_lab::{BoundRequest, CompareRequest, CurveRequest, Lab, MemorySize};
use ebbpool_lab::{PolicySelection, PricingRequest, RunRequest, Settings, Silent};
use ebbpool_trace::Source;

fn main() -> Result<(), Box<dyn Error>> {
    let named = std::env::args().nth(1);
    let trace = named.unwrap_or("zipf:pages=2000,refs=50000".into());
    let source = Source::parse(&trace, None)?;
    let lab = Lab::new(Settings::default(), &Silent);
    let policies = || PolicySelection::lists(["lru,cflru,ebb"]);
    let size: MemorySize = "5%".parse()?;
    let asymmetry = "32".parse()?;

    // Which policy makes the bill smallest?
    let prices = ["8", "32"].map(|r| r.parse().map(PricingRequest::Asymmetry));
    let prices = prices.into_iter().collect::<Result<_, _>>()?;
    let request = CompareRequest::new(policies(), vec![size.clone()], prices);
    let comparison = lab.compare(&source, &request)?;
    Answer::new(&comparison).sentences().for_each(|sentence| println!("{sentence}"));

    // How much does more memory save?
    let request = CurveRequest::new(policies(), asymmetry);
    println!("{}", lab.curve(&source, &request)?.sentence());

    // How small could the bill be?
    let request = BoundRequest::new(vec![size.clone()], vec![asymmetry]);
    for bound in lab.bound(&source, &request)? {
        let least = bound.lower_bound;
        println!("no policy costs less than {least:.3} page reads a reference");
    }

    // What does one policy do?
    let request = RunRequest::new("ebb".parse()?, size, PricingRequest::default());
    let run = lab.run(&source, &request)?.result;
    let (policy, cost) = (run.policy, run.cost);
    println!("{policy} costs {cost:.3} with {} frames", run.frames);
    Ok(())
}
