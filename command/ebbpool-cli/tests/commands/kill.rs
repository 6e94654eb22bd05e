//! Kills processes while they put records. Every record that a process acknowledged with `ok` must survive,
//! and the surviving records must be a prefix of the input lines.
//!
//! `EBBPOOL_KILLS=500` sets the number of kills, `EBBPOOL_KILL_SEED=n` the seed of the records and times.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Ebbpool, errors};

const KILLS: u64 = 5;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")),
        Err(_) => otherwise,
    }
}

/// The input of a process: more lines than it can read before it is killed.
fn lines(random: &mut fastrand::Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let line = |_| {
        let key = format!("key {}", random.u32(..700)).into_bytes();
        // Some values are longer than a page.
        let length = match random.u32(..10) {
            0 => random.usize(..9000),
            _ => random.usize(..200),
        };
        let value = (0..length).map(|_| random.u8(b'a'..=b'z')).collect();
        (key, value)
    };
    (0..50_000).map(line).collect()
}

/// Runs a process that puts lines, and kills it. Returns the number of lines that it acknowledged.
fn put_and_kill(ebbpool: &Ebbpool, lines: &[(Vec<u8>, Vec<u8>)], random: &mut fastrand::Rng) -> usize {
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
    // With no `ok` to wait for, the process dies while it opens and recovers the database, or soon after.
    let oks = if random.bool() { random.usize(1..60) } else { 0 };
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
        let mut output = stdout.split(b'\n').map_while(Result::ok);
        let first: Vec<Vec<u8>> = output.by_ref().take(oks).collect();
        std::thread::sleep(after);
        child.kill().expect("it runs");
        child.wait().expect("an end");
        // An incomplete line is not an acknowledgement.
        let oks = first.into_iter().chain(output).zip(lines);
        oks.take_while(|(ok, (key, _))| *ok == [b"ok ", &key[..]].concat()).count()
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
fn acknowledged_lines_survive_every_kill_and_form_a_prefix() {
    let kills = number("EBBPOOL_KILLS", KILLS);
    let seed = number("EBBPOOL_KILL_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let ebbpool = Ebbpool::in_scratch();
    let mut records = Records::new();
    let mut all = 0;
    for kill in 0..kills {
        let lines = lines(&mut random);
        let oks = put_and_kill(&ebbpool, &lines, &mut random);
        all += oks;
        let found = match found(&ebbpool) {
            Ok(found) => found,
            // The process died before it had created a database.
            Err(_) if oks == 0 && records.is_empty() => continue,
            Err(error) => panic!("kill {kill} of seed {seed}: {error}"),
        };
        for (key, value) in &lines[..oks] {
            records.insert(key.clone(), value.clone());
        }
        // Lines that the process committed and had not yet acknowledged may have survived too.
        let mut more = lines[oks..].iter();
        while records != found {
            let (key, value) = more.next().unwrap_or_else(|| {
                panic!("kill {kill} of seed {seed}: after {oks} oks the records are not a prefix of the lines")
            });
            records.insert(key.clone(), value.clone());
        }
        let checked = ebbpool.run(&["db", "check", "k.db"]);
        let findings = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success(), "kill {kill} of seed {seed}: {findings}");
    }
    println!("{kills} kills, {all} oks");
    assert!(all as u64 > kills, "too few lines were put: {all}");
}
