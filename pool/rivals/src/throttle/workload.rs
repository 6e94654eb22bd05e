//! Threads that fix pages, and how long each fix takes.

use std::error::Error;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebbpool::{Pool, PoolError};

use crate::measure::cpu_ns;
use crate::references;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Four threads fix pages for writing, each page as often as any other.
    Uniform,
    /// Four threads fix pages for writing, by Zipf's law with alpha 0.99.
    Hot,
    /// Two threads write 300 pages each and pause, again and again; two threads read a page each millisecond.
    Bursts,
}

impl Workload {
    pub const ALL: [Workload; 3] = [Workload::Uniform, Workload::Hot, Workload::Bursts];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Uniform => "uniform",
            Workload::Hot => "hot",
            Workload::Bursts => "bursts",
        }
    }

    fn threads(self) -> [Role; 4] {
        match self {
            Workload::Uniform | Workload::Hot => [Role::Writer; 4],
            Workload::Bursts => [Role::Burst, Role::Burst, Role::Reader, Role::Reader],
        }
    }

    fn alpha(self) -> f64 {
        match self {
            Workload::Uniform | Workload::Bursts => 0.0,
            Workload::Hot => 0.99,
        }
    }
}

/// What one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Writer,
    Burst,
    Reader,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Writer | Role::Burst => "writers",
            Role::Reader => "readers",
        }
    }
}

/// Fixes between two pauses of a thread that writes in bursts.
const BURST: usize = 300;

/// How long such a thread pauses.
const BETWEEN_BURSTS: Duration = Duration::from_millis(300);

/// How long a reader pauses after each fix.
const BETWEEN_READS: Duration = Duration::from_millis(1);

/// The number of different references of a thread, which it repeats.
const STRING: usize = 1 << 16;

/// What a run does at a moment.
const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// The result of a run.
pub struct Measured {
    pub seconds: f64,
    /// Processor time of the whole process, in seconds.
    pub cpu: f64,
    /// What threads of each role did.
    pub groups: Vec<Group>,
    /// Pages written during the run.
    pub written: u64,
    /// Fixes that waited for the write of a dirty page.
    pub waits: u64,
    /// Fixes that the budget delayed.
    pub delays: u64,
}

/// The fixes of threads of one role.
pub struct Group {
    pub role: Role,
    /// Nanoseconds of each fix, ascending.
    pub times: Vec<u64>,
}

impl Measured {
    pub fn fixes(&self) -> usize {
        self.groups.iter().map(|group| group.times.len()).sum()
    }
}

impl Group {
    /// The time in microseconds that this share of the fixes did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = (self.times.len() as f64 * share) as usize;
        let time = self.times.get(at).or(self.times.last());
        time.map_or(f64::NAN, |&time| time as f64 / 1e3)
    }
}

/// Runs a workload, and measures it for some time after half of that time.
pub fn run(pool: &Pool, workload: Workload, pages: u32, seconds: Duration) -> Result<Measured, Box<dyn Error>> {
    let threads = workload.threads();
    let strings = (0..threads.len() as u64)
        .map(|thread| references::zipf(pages, workload.alpha(), STRING, thread))
        .collect::<Result<Vec<_>, _>>()?;
    let phase = &AtomicU8::new(WARMING_UP);
    let (took, cpu, results, before) = thread::scope(|scope| {
        let spawned =
            threads.iter().zip(&strings).map(|(&role, string)| scope.spawn(move || fix_until_over(pool, role, string, phase)));
        let spawned: Vec<_> = spawned.collect();
        thread::sleep(seconds / 2);
        let before = pool.stats();
        phase.store(MEASURING, Ordering::Relaxed);
        let (begin, cpu) = (Instant::now(), cpu_ns());
        thread::sleep(seconds);
        phase.store(OVER, Ordering::Relaxed);
        let results: Vec<_> = spawned.into_iter().map(|thread| thread.join()).collect();
        (begin.elapsed(), cpu_ns() - cpu, results, before)
    });
    let after = pool.stats();
    let mut groups: Vec<Group> = Vec::new();
    for (role, result) in threads.into_iter().zip(results) {
        let times = result.map_err(|_| "a thread panicked")??;
        match groups.iter_mut().find(|group| group.role == role) {
            Some(group) => group.times.extend(times),
            None => groups.push(Group { role, times }),
        }
    }
    groups.iter_mut().for_each(|group| group.times.sort_unstable());
    Ok(Measured {
        seconds: took.as_secs_f64(),
        cpu: cpu as f64 / 1e9,
        groups,
        written: after.writes() - before.writes(),
        waits: after.waits_for_writes - before.waits_for_writes,
        delays: after.delays - before.delays,
    })
}

/// Fixes pages until the run is over; returns the nanoseconds of each fix that is measured.
fn fix_until_over(pool: &Pool, role: Role, string: &[u32], phase: &AtomicU8) -> Result<Vec<u64>, PoolError> {
    let mut times = Vec::new();
    for (fixes, &page) in (1..).zip(string.iter().cycle()) {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            break;
        }
        let begin = Instant::now();
        match role {
            Role::Reader => drop(pool.fix_read(page.into())?),
            Role::Writer | Role::Burst => pool.fix_write(page.into())?[0] += 1,
        }
        if now == MEASURING {
            times.push(begin.elapsed().as_nanos() as u64);
        }
        match role {
            Role::Writer => {}
            Role::Burst if fixes % BURST == 0 => thread::sleep(BETWEEN_BURSTS),
            Role::Burst => {}
            Role::Reader => thread::sleep(BETWEEN_READS),
        }
    }
    Ok(times)
}
