//! Million host writes a second of the flash model: uniformly random pages on 4,096 blocks of 64
//! pages at rho 0.8, one thread.
//!
//! `cargo bench -p ebbpool-device --bench flash`, or with fewer writes and only some devices
//! `cargo bench -p ebbpool-device --bench flash -- 1000000 ftl=page ftl=fast`. The device is filled and
//! written to until write amplification settles; then whole runs are timed, including the drawing of
//! pages. Compare the ratio to page mapping with greedy cleaning in the same run.

use std::env;
use std::time::Instant;

use ebbpool_device::flash::{Flash, FlashConfig};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const RUNS: usize = 3;

const DEVICES: [&str; 12] = [
    "ftl=page", "gc=fifo", "gc=random", "gc=d-choices", "gc=cost-benefit", "gc=ee-greedy", "frontiers=2", "wl=static:50",
    "ftl=dftl", "ftl=block", "ftl=bast", "ftl=fast",
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut writes: u64 = 4_000_000;
    let mut chosen: Vec<&str> = Vec::new();
    for argument in arguments.iter().filter(|a| !a.starts_with("--")) {
        match argument.parse() {
            Ok(number) => writes = number,
            Err(_) => chosen.push(argument),
        }
    }
    if chosen.is_empty() {
        chosen.extend(DEVICES);
    }
    chosen.retain(|settings| *settings != "ftl=page");
    chosen.insert(0, "ftl=page");

    let mut devices = Vec::new();
    for settings in &chosen {
        let name = format!("flash:slc-mt29f4g08aaa,precondition=steady,{settings}");
        let config: FlashConfig = name.parse()?;
        devices.push(Flash::new(&config)?);
    }
    // Devices take turns in rounds, so that other load on the machine affects all of them alike.
    let mut rates = vec![Vec::new(); devices.len()];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..RUNS {
        for (device, rates) in devices.iter_mut().zip(&mut rates) {
            let pages = u128::from(device.logical_pages());
            // Merges turn one write into up to 60 programs, so those layers get fewer writes.
            let programs = device.report().predicted_write_amplification;
            let writes = writes / programs.map_or(1, |programs| 1 + programs as u64 / 8);
            let start = Instant::now();
            for _ in 0..writes {
                device.write(((u128::from(random.next_u64()) * pages) >> 64) as u64)?;
            }
            rates.push(writes as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
    }

    println!("up to {writes} random writes, median of {RUNS}");
    println!(
        "{:<20} {:>16} {:>10} {:>18} {:>20}",
        "device", "million writes/s", "times page", "programs per write", "million programs/s"
    );
    let of_page = median(rates.first().cloned().unwrap_or_default());
    for ((settings, device), rates) in chosen.iter().zip(&mut devices).zip(rates) {
        let report = device.report();
        let rate = median(rates);
        let programs = report.programs as f64 / report.host_writes as f64;
        println!("{settings:<20} {rate:>16.2} {:>10.2} {programs:>18.3} {:>20.1}", of_page / rate, rate * programs);
    }
    Ok(())
}
