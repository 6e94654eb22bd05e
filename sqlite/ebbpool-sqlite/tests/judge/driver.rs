//! Runs programs in processes of their own, on all processors, and reports what they find.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::lockstep::run;
use crate::price::{PRICES, Tally};
use crate::{generate, real, real_programs, setting, shrink, trace};

/// A program that says nothing for so long waits for ever.
const SILENCE: Duration = Duration::from_secs(150);
/// Programs of one process. What the library holds for the databases of ghosts goes with it.
const PROGRAMS: u64 = 1000;

/// The state of all workers.
#[derive(Default)]
struct Board {
    programs: AtomicU64,
    steps: AtomicU64,
    milliseconds: AtomicU64,
    stop: AtomicBool,
    /// By kind: how many, and the first one.
    findings: Mutex<BTreeMap<String, (u64, String)>>,
    prices: Mutex<BTreeMap<String, u64>>,
}

/// The driver's side; `seconds` is the processor time for all programs with `EBBPOOL_WHOLE`, where the environment does not say
/// another one; a tenth of it else.
pub fn drive(world: &'static str, seconds: u64) {
    let one = setting("EBBPOOL_SEED");
    let first = one.or(setting("EBBPOOL_FIRST_SEED")).unwrap_or(1);
    let most = one.map(|_| 1).or(setting("EBBPOOL_PROGRAMS"));
    let seconds =
        setting("EBBPOOL_SECONDS").unwrap_or(if std::env::var_os("EBBPOOL_WHOLE").is_some() { seconds } else { seconds / 10 });
    let is_survey = std::env::var_os("EBBPOOL_SURVEY").is_some();
    let board = Board::default();
    let next = AtomicU64::new(first);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !board.stop.load(Ordering::Relaxed) {
                    let count = most.map_or(PROGRAMS, |most| most.min(PROGRAMS));
                    let from = next.fetch_add(count, Ordering::Relaxed);
                    let is_over = match most {
                        Some(most) => from - first >= most,
                        None => board.milliseconds.load(Ordering::Relaxed) >= seconds * 1000,
                    };
                    if is_over {
                        return;
                    }
                    let limit = most.map_or(seconds * 1000, |_| u64::MAX);
                    batch(&board, world, from, count, limit, is_survey);
                }
            });
        }
    });
    report(&board, begin.elapsed());
}

/// Runs the programs of some seeds, in as many processes as it takes.
fn batch(board: &Board, world: &str, first: u64, count: u64, limit: u64, is_survey: bool) {
    let mut seed = first;
    while seed < first + count && !board.stop.load(Ordering::Relaxed) {
        let (mut child, lines) = start(world, seed, first + count - seed);
        let mut is_whole = false;
        loop {
            match lines.recv_timeout(SILENCE) {
                Ok(line) => match line.split_once(' ').unwrap_or((&line, "")) {
                    ("seed", number) => seed = number.parse().unwrap_or(seed),
                    ("done", numbers) => note_program(board, numbers),
                    ("price", name) => *board.prices.lock().unwrap().entry(name.into()).or_default() += 1,
                    ("kind", text) => {
                        let (kind, text) = text.split_once('\t').unwrap_or((text, ""));
                        note_finding(board, kind, &text.replace('\t', "\n"), is_survey);
                    }
                    ("end", _) => is_whole = true,
                    _ => {}
                },
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    note_finding(board, "hangs", &format!("seed {seed} hangs"), is_survey);
                    break;
                }
            }
            if board.stop.load(Ordering::Relaxed) || board.milliseconds.load(Ordering::Relaxed) >= limit {
                end(&mut child);
                return;
            }
        }
        end(&mut child);
        if is_whole {
            return;
        }
        if !board.stop.load(Ordering::Relaxed) && lines.recv_timeout(Duration::ZERO).is_err() {
            let hung = board.findings.lock().unwrap().values().any(|(_, text)| text.contains(&format!("seed {seed} ")));
            if !hung {
                note_finding(board, "dies", &format!("seed {seed} ends its process"), is_survey);
            }
        }
        seed += 1;
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Starts a worker, whose lines arrive through a channel.
fn start(world: &str, first: u64, count: u64) -> (Child, Receiver<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--ignored", "--nocapture"])
        .env("EBBPOOL_JUDGE", format!("{world} {first} {count}"))
        .stdout(Stdio::piped())
        .stderr(match std::env::var_os("EBBPOOL_TRACE") {
            Some(_) => Stdio::inherit(),
            None => Stdio::null(),
        })
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

fn note_program(board: &Board, numbers: &str) {
    let mut numbers = numbers.split(' ').filter_map(|number| number.parse().ok());
    board.programs.fetch_add(1, Ordering::Relaxed);
    board.steps.fetch_add(numbers.next().unwrap_or(0), Ordering::Relaxed);
    board.milliseconds.fetch_add(numbers.next().unwrap_or(0), Ordering::Relaxed);
}

fn note_finding(board: &Board, kind: &str, text: &str, is_survey: bool) {
    let milliseconds = board.milliseconds.load(Ordering::Relaxed);
    let programs = board.programs.load(Ordering::Relaxed);
    let mut findings = board.findings.lock().unwrap();
    let first = || {
        let after = format!("after {programs} programs and {milliseconds} ms of processor time");
        (0, format!("{after}: {text}"))
    };
    findings.entry(kind.to_owned()).or_insert_with(first).0 += 1;
    board.stop.store(!is_survey, Ordering::Relaxed);
}

fn report(board: &Board, took: Duration) {
    let [programs, steps, milliseconds] =
        [&board.programs, &board.steps, &board.milliseconds].map(|count| count.load(Ordering::Relaxed));
    let findings = board.findings.lock().unwrap();
    for (count, text) in findings.values() {
        println!("{count} x {text}\n");
    }
    for (kind, (count, _)) in &*findings {
        println!("{count:6} x {kind}");
    }
    println!("{programs} programs, {steps} steps in {milliseconds} ms of processor time, {took:?}");
    for (name, count) in &*board.prices.lock().unwrap() {
        let reason = PRICES.iter().find(|(price, _)| format!("{price:?}") == *name);
        println!("{count:8} programs met {name}: {}", reason.map_or("", |(_, reason)| reason));
    }
    assert!(findings.is_empty(), "{} kinds of differences", findings.len());
}

/// Milliseconds of processor time of this process, and of those of its children that have ended.
fn processor_time() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call only writes the numbers, which are all zeros before.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |time: libc::timeval| time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000;
    let children = of(usage.ru_utime) + of(usage.ru_stime);

    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    children + time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// A worker's side.
pub fn work() {
    let Ok(seeds) = std::env::var("EBBPOOL_JUDGE") else {
        return;
    };
    let words: Vec<&str> = seeds.split(' ').collect();
    let (first, count): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let bench = Bench::new();
    let mut known = BTreeSet::new();
    println!();
    for seed in first..first + count {
        say(&format!("seed {seed}"));
        let mut tally = Tally::default();
        let found = match words[0] {
            "processes" => processes(&bench, seed, &mut tally, &mut known),
            _ => connections(&bench, seed, &mut tally, &mut known),
        };
        for price in tally.prices.keys() {
            say(&format!("price {price:?}"));
        }
        let Some((kind, text, is_hang)) = found else {
            continue;
        };
        say(&format!("kind {kind}\t{}", text.replace('\n', "\t")));
        if is_hang {
            // Threads that wait for ever would be in the way of the programs after this one.
            std::process::exit(0);
        }
    }
    say("end");
}

/// A difference: its kind, the text for the report, and whether this process can go on.
type Found = (String, String, bool);

fn done(tally: &Tally, spent: u64) {
    say(&format!("done {} {}", tally.steps, processor_time() - spent));
}

fn connections(bench: &Bench, seed: u64, tally: &mut Tally, known: &mut BTreeSet<String>) -> Option<Found> {
    let spent = processor_time();
    let mut program = generate::program(seed);
    let answer = run(bench, &program, tally);
    done(tally, spent);
    let mut finding = answer.err()?;
    if known.insert(shrink::kind(&finding)) && std::env::var_os("EBBPOOL_WHOLE").is_none() {
        (program, finding) = shrink::shrink(bench, &program, &finding);
    }
    trace::traced(|| drop(run(bench, &program, &mut Tally::default())));
    let theme = generate::theme(seed);
    let text = format!("seed {seed} {theme:?}: {}\n{}", finding.why, program.show());
    Some((shrink::kind(&finding), text, finding.is_hang))
}

fn processes(bench: &Bench, seed: u64, tally: &mut Tally, known: &mut BTreeSet<String>) -> Option<Found> {
    let spent = processor_time();
    let program = real_programs::program(seed);
    let answer = real::run(bench, &program, tally);
    done(tally, spent);
    let (at, mut why) = answer.err()?;
    let mut shown = program.clone();
    if known.insert(real_programs::kind(&why)) && std::env::var_os("EBBPOOL_WHOLE").is_none() {
        (shown, why) = real_programs::shrink(bench, &program, at, &why);
    }
    trace::traced(|| drop(real::run(bench, &shown, &mut Tally::default())));
    let text = format!("seed {seed}: {why}\n{}", shown.show());
    Some((real_programs::kind(&why), text, false))
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{line}");
    let _ = output.flush();
}
