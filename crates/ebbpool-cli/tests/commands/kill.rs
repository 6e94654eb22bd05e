//! Processes that are killed while they put records: what they said `ok` to is there, and what is there
//! are the first so many lines that they were given.
//!
//! `EBBPOOL_KILLS=500` is how many there are to be, `EBBPOOL_KILL_SEED=n` what decides what is put and when.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Ebbpool, errors};

const KILLS: u64 = 20;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
        Err(_) => otherwise,
    }
}

/// What a process is given: more lines than it lives for.
fn lines(random: &mut fastrand::Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let line = |_| {
        let key = format!("key {}", random.u32(..700)).into_bytes();
        // Some are longer than a page.
        let length = match random.u32(..10) {
            0 => random.usize(..9000),
            _ => random.usize(..200),
        };
        let value = (0..length).map(|_| random.u8(b'a'..=b'z')).collect();
        (key, value)
    };
    (0..50_000).map(line).collect()
}

/// Puts lines until it is killed; answers to how many it said `ok`.
fn killed(ebbpool: &Ebbpool, lines: &[(Vec<u8>, Vec<u8>)], random: &mut fastrand::Rng) -> usize {
    let durability = if random.bool() { "synced" } else { "buffered" };
    let put = ["db", "put", "k.db", "--frames", "24"];
    let mut child = ebbpool
        .command(&[&put[..], &["--durability", durability]].concat())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("ebbpool starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    // Otherwise it is killed while it opens the database and recovers, or soon after.
    let oks = if random.bool() {
        random.usize(1..60)
    } else {
        0
    };
    let after = Duration::from_micros(random.u64(..60_000));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (key, value) in lines {
                let line = [key, &b"\t"[..], value, b"\n"].concat();
                if stdin.write_all(&line).is_err() {
                    break;
                }
            }
        });
        let mut said = stdout.split(b'\n').map_while(Result::ok);
        let first: Vec<Vec<u8>> = said.by_ref().take(oks).collect();
        std::thread::sleep(after);
        child.kill().expect("it runs");
        child.wait().expect("an end");
        // A line that was cut off was not said.
        let oks = first.into_iter().chain(said).zip(lines);
        oks.take_while(|(ok, (key, _))| *ok == [b"ok ", &key[..]].concat())
            .count()
    })
}

fn found(ebbpool: &Ebbpool) -> Result<Records, String> {
    let dumped = ebbpool.run(&["db", "dump", "k.db"]);
    if !dumped.status.success() {
        return Err(errors(&dumped));
    }
    let lines = dumped.stdout.split(|&byte| byte == b'\n');
    let pair = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b'\t')?;
        Some((line[..at].to_vec(), line[at + 1..].to_vec()))
    };
    Ok(lines.filter_map(pair).collect())
}

#[test]
fn what_was_ok_survives_every_kill_and_lines_are_there_in_order() {
    let kills = number("EBBPOOL_KILLS", KILLS);
    let seed = number("EBBPOOL_KILL_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let ebbpool = Ebbpool::in_scratch();
    let mut records = Records::new();
    let mut all = 0;
    for kill in 0..kills {
        let lines = lines(&mut random);
        let oks = killed(&ebbpool, &lines, &mut random);
        all += oks;
        let found = match found(&ebbpool) {
            Ok(found) => found,
            // It was killed before it had made one.
            Err(_) if oks == 0 && records.is_empty() => continue,
            Err(told) => panic!("kill {kill} of seed {seed}: {told}"),
        };
        for (key, value) in &lines[..oks] {
            records.insert(key.clone(), value.clone());
        }
        // What it had done and not yet said may be there too.
        let mut more = lines[oks..].iter();
        while records != found {
            let (key, value) = more
                .next()
                .unwrap_or_else(|| panic!("kill {kill} of seed {seed}: after {oks} oks there are not the first so many lines"));
            records.insert(key.clone(), value.clone());
        }
        let checked = ebbpool.run(&["db", "check", "k.db"]);
        let told = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(
            checked.status.success(),
            "kill {kill} of seed {seed}: {told}"
        );
    }
    println!("{kills} kills, {all} oks");
    assert!(all as u64 > kills, "nearly nothing was put: {all}");
}
