//! Random programs of processes, and smaller ones that show the same.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::bench::Bench;
use crate::price::Tally;
use crate::real::{CONNECTIONS, Location, PROCESSES, RealProgram, RealStep, run};

/// After this time a program is small enough.
const LONGEST: Duration = Duration::from_secs(60);

const WAL: &str = "PRAGMA journal_mode=wal";
/// More than the library has memory for, and undone by the second row.
const LARGE: &str = "INSERT INTO t SELECT 60, 0, randomblob(1300000) UNION ALL SELECT 60, 0, 0";

/// The program of a seed.
pub fn program(seed: u64) -> RealProgram {
    let mut random = Rng::with_seed(seed ^ 0x5ea1);
    let location = [Location::Fixed, Location::Mounted].get(random.usize(0..20)).copied().unwrap_or(Location::Usual);
    let is_usual = location == Location::Usual;
    let mut steps = vec![RealStep::Start(0)];
    // Another copy of SQLite comes first, and has commits in its WAL.
    let has_second = is_usual && random.u32(0..4) == 0;
    if has_second {
        steps.extend([RealStep::Second(0), RealStep::SecondSql(0, WAL), RealStep::SecondSql(0, text(&mut random))]);
    }
    steps.push(RealStep::Open(0, 0, window(&mut random)));
    if is_usual && random.bool() {
        steps.push(RealStep::Sql(0, 0, WAL));
    }
    if random.u32(0..8) == 0 {
        steps.push(RealStep::Sql(0, 0, LARGE));
    }
    let count = random.usize(50..70);
    while steps.len() < count {
        let next = step(&mut random, has_second);
        if let RealStep::Fork(_, q) | RealStep::Daemon(_, q) = next {
            // Otherwise few children would do anything.
            steps.extend([next, RealStep::Open(q, CONNECTIONS - 1, 0), RealStep::Sql(q, CONNECTIONS - 1, text(&mut random))]);
            continue;
        }
        steps.push(next);
    }
    RealProgram { seed, location, steps }
}

fn window(random: &mut Rng) -> u32 {
    [0, 0, 1000][random.usize(0..3)]
}

fn step(random: &mut Rng, has_second: bool) -> RealStep {
    // The first process and connection do most.
    let p = random.usize(0..PROCESSES).saturating_sub(2);
    let c = random.usize(0..CONNECTIONS + 1) % CONNECTIONS;
    let q = random.usize(0..PROCESSES);
    match random.u32(0..100) {
        0..=7 => RealStep::Start(q),
        8..=19 => RealStep::Open(p, c, window(random)),
        20..=22 => RealStep::OpenReadOnly(p, c),
        23..=28 => RealStep::Close(p, c),
        29..=32 => RealStep::Fork(p, q),
        33..=34 => RealStep::Daemon(p, q),
        35..=39 => RealStep::ReadFile(p, ["", "", "-ebb", "-wal"][random.usize(0..4)]),
        40..=42 => RealStep::Copy(p, c),
        43 => RealStep::Unlink,
        44..=46 => RealStep::Kill(p),
        47 => RealStep::Exit(p),
        48..=49 => RealStep::Quit(p),
        50 | 51 => RealStep::Second(p),
        52..=54 => RealStep::SecondSql(p, text(random)),
        55 => RealStep::Touch,
        56 => RealStep::Restore(random.usize(0..60)),
        57 => RealStep::PutCopy,
        58 => RealStep::Pause(p),
        _ if has_second && random.u32(0..3) == 0 => RealStep::SecondSql(p, text(random)),
        _ => RealStep::Sql(p, c, text(random)),
    }
}

fn text(random: &mut Rng) -> &'static str {
    let key = random.u32(0..60);
    let text = match random.u32(0..20) {
        0 => ["BEGIN IMMEDIATE", "BEGIN"][random.usize(0..2)].into(),
        1 | 2 => "COMMIT".into(),
        3 => "ROLLBACK".into(),
        4 => "PRAGMA wal_checkpoint(TRUNCATE)".into(),
        5 => "PRAGMA ebbpool_flush".into(),
        6 => "PRAGMA ebbpool_checkpoint".into(),
        7 => "SELECT count(*), sum(n), total(length(v)) FROM t".into(),
        8 => "SELECT sum(n) FROM t INDEXED BY t_n WHERE n > 3".into(),
        9 => "VACUUM".into(),
        10 => format!("DELETE FROM t WHERE k BETWEEN {key} AND {}", key + 3),
        11 => format!("UPDATE t SET n = n + 1 WHERE k % 7 = {}", key % 7),
        _ => {
            format!("INSERT OR REPLACE INTO t VALUES ({key}, {}, printf('%.{}c', 'r'))", random.u32(0..100), random.u32(0..900))
        }
    };
    Box::leak(text.into_boxed_str())
}

/// What a difference is about.
pub fn kind(why: &str) -> String {
    let letters = why.chars().filter(|letter| !letter.is_ascii_digit());
    let words: String = letters.take_while(|letter| *letter != ':' && *letter != '{').collect();
    format!("processes: {}", words.chars().take(40).collect::<String>())
}

/// The smallest program found that shows a difference of a kind.
pub fn shrink(bench: &Bench, program: &RealProgram, at: usize, why: &str) -> (RealProgram, String) {
    let end = Instant::now() + LONGEST;
    let mut best = (program.clone(), why.to_owned());
    let attempt = |best: &mut (RealProgram, String), steps: Vec<RealStep>| {
        if Instant::now() > end || steps.len() >= best.0.steps.len() {
            return false;
        }
        let smaller = RealProgram { steps, ..best.0.clone() };
        match run(bench, &smaller, &mut Tally::default()) {
            Err((_, found)) if kind(&found) == kind(&best.1) => {
                *best = (smaller, found);
                true
            }
            _ => false,
        }
    };
    let mut steps = program.steps.clone();
    steps.truncate(at + 1);
    attempt(&mut best, steps);
    let mut part = best.0.steps.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        while from < best.0.steps.len() {
            let mut steps = best.0.steps.clone();
            steps.drain(from..(from + part).min(steps.len()));
            if !attempt(&mut best, steps) {
                from += part;
            }
        }
        part /= 2;
    }
    best
}
