//! Processes that are killed while they put records: what they said `ok` to is there, and what is there
//! are the first so many lines that they were given.
//!
//! `EBBPOOL_KILLS=500` is how many there are to be, `EBBPOOL_KILL_SEED=n` what decides what is put and when.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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

fn ebbpool(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebbpool"));
    command.current_dir(directory).args(args);
    command
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
fn killed(directory: &Path, lines: &[(Vec<u8>, Vec<u8>)], random: &mut fastrand::Rng) -> usize {
    let durability = if random.bool() { "synced" } else { "buffered" };
    let mut child = ebbpool(
        directory,
        &[
            "db",
            "put",
            "k.db",
            "--frames",
            "24",
            "--durability",
            durability,
        ],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .expect("ebbpool starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let first = random.bool();
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
        let mut count = 0;
        // Otherwise it is killed while it opens the database and recovers.
        if first && said.next().is_some() {
            count += 1;
        }
        std::thread::sleep(after);
        child.kill().expect("it runs");
        child.wait().expect("an end");
        // A line that was cut off was not said.
        let oks = said.zip(&lines[count..]);
        count
            + oks
                .take_while(|(ok, (key, _))| *ok == [b"ok ", &key[..]].concat())
                .count()
    })
}

fn found(directory: &Path) -> Result<Records, String> {
    let dumped = ebbpool(directory, &["db", "dump", "k.db"]).output();
    let dumped = dumped.expect("ebbpool starts");
    let told = String::from_utf8_lossy(&dumped.stderr).into_owned();
    if !dumped.status.success() {
        return Err(told);
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
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut records = Records::new();
    let mut all = 0;
    for kill in 0..kills {
        let lines = lines(&mut random);
        let oks = killed(directory, &lines, &mut random);
        all += oks;
        let found = match found(directory) {
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
        let checked = ebbpool(directory, &["db", "check", "k.db"]).output();
        let checked = checked.expect("ebbpool starts");
        let told = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(
            checked.status.success(),
            "kill {kill} of seed {seed}: {told}"
        );
    }
    println!("{kills} kills, {all} oks");
    assert!(all as u64 > kills, "nearly nothing was put: {all}");
}
