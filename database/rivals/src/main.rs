//! Ebbpool's B+-tree, redb and SQLite on the same workload, with the same memory, durability and file
//! system, as a Markdown table.
//!
//! `db-rivals DIRECTORY [NAME=VALUE…]`; names and defaults are in `plan.rs`. Each measurement runs in a
//! process of its own, which this program starts: itself, with `child` as its first argument.

mod child;
mod engines;
mod files;
mod plan;

use std::error::Error;
use std::fs;
use std::process::Command;

use child::Measured;
use plan::{Durability, Plan};

/// Anything that can go wrong; a line for people.
pub type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("child") => child::run(&arguments.split_off(1)),
        _ => compare(&Plan::of(&arguments)?),
    }
}

/// All workloads with all durabilities on all engines, one after the other.
fn compare(plan: &Plan) -> Result<(), Failure> {
    files::warn_of_others(&plan.directory)?;
    println!("| workload | durability | engine | transactions/s | written | write amplification | files |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for workload in &plan.workloads {
        for durability in [Durability::Synced, Durability::None] {
            for engine in &plan.engines {
                let measured = measure(plan, workload, durability, engine)?;
                let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
                let amplification = match measured.changed {
                    0 => "-".into(),
                    changed => format!("{:.2}", measured.written as f64 / changed as f64),
                };
                println!(
                    "| {workload} | {} | {engine} | {:.0} | {} | {amplification} | {} |",
                    durability.name(),
                    measured.transactions as f64 / measured.seconds,
                    mib(measured.written),
                    mib(measured.files),
                );
            }
        }
    }
    Ok(())
}

/// Loads a database, and then runs the workload in another process.
fn measure(plan: &Plan, workload: &str, durability: Durability, engine: &str) -> Result<Measured, Failure> {
    let directory = plan.directory.join(format!("{engine}-{workload}"));
    // What an earlier run left, if it was ended.
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&directory)?,
    }
    let child = |what: &str| -> Result<String, Failure> {
        let output = Command::new(std::env::current_exe()?)
            .args(["child", what, engine, workload, durability.name()])
            .arg(&directory)
            .args(plan.numbers())
            .output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => {
                let message = String::from_utf8_lossy(&output.stderr);
                Err(format!("{engine}, {workload}: {}", message.trim()).into())
            }
        }
    };
    child("load")?;
    let output = child("work")?;
    let measured = Measured::read(&output, files::length(&directory)?)?;
    fs::remove_dir_all(&directory)?;
    Ok(measured)
}
