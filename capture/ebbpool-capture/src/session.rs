//! A capture from attaching to detaching.

use std::thread;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use serde::Serialize;

use crate::calibration::{EventCost, calibrate};
use crate::error::CaptureError;
use crate::event::ALL_PAGES;
use crate::recorder::CaptureBuffer;
use crate::target::Process;
use crate::written::{CountedWrites, ReadBytes, WriteCounters, WrittenBytes};

/// How often waiting events are read.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest time for which waiting events are read before the limits are looked at.
const READING: Duration = Duration::from_millis(100);

/// The time for what waits at the end: a target that goes on makes no capture longer.
const READING_AT_LAST: Duration = Duration::from_millis(700);

/// How often the caller learns of the progress.
const REPORT: Duration = Duration::from_secs(1);

/// Runs of programs: at places that the kernel emulates, and at those that it steps over; and how many of all look at the file of a call.
pub type Runs = [u64; 3];

/// Where events come from: probes, or what records inside the target.
pub trait EventStream {
    /// Hands over the events that wait, until `take` returns false. False if events are left because it did.
    fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool;

    /// The filled share of the ring.
    fn fill(&self) -> f64;

    /// Events that found no room.
    fn lost(&self) -> u64;

    /// Runs of programs so far in captured processes that are counted.
    fn runs(&self) -> Runs {
        [0; 3]
    }

    /// Runs in processes that are not captured, by process.
    fn runs_of_others(&self) -> Vec<(i32, [u64; 2])> {
        Vec::new()
    }

    /// Processor time that the stream itself has taken of the target's so far.
    fn spent(&self) -> Duration {
        Duration::ZERO
    }

    /// The share of a processor from which on a target notices it.
    fn least_noticed(&self) -> f64 {
        LEAST_NOTICED
    }

    /// Leaves out pages whose [position](crate::event::PageEvent::sample_position) is not below the limit.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if the kernel refuses it.
    fn limit_sample(&self, _limit: u64) -> Result<(), CaptureError> {
        Ok(())
    }

    /// The longest time for which events that wait at the end are read, before the stream ends and after it.
    fn reading_at_last(&self) -> Duration {
        READING_AT_LAST
    }

    /// Ends the stream; events that wait remain.
    fn detach(&mut self) {}
}

/// A program whose requests can be captured.
pub trait CaptureSource {
    /// Begins the stream of events, through a ring of that many bytes.
    ///
    /// # Errors
    ///
    /// [`CaptureError`]; nothing is attached then.
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError>;

    /// Takes an event. The source ignores bytes that are no event of its own.
    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer);

    /// Events have found no room: what they would have said is not known, such as that something has ended.
    fn miss(&mut self) {}

    /// Records the pages that the target's cache has; called when the probes are attached.
    fn record_resident(&mut self, _recorder: &mut CaptureBuffer) {}

    /// Looks at what changes while the target runs, such as its open files; called every 20 ms.
    fn refresh(&mut self) {}

    /// Looks a last time, before the probes are removed, which may take seconds.
    fn refresh_at_last(&mut self) {
        self.refresh();
    }

    /// False once the target has ended.
    fn is_alive(&self) -> bool;

    /// True once the process runs another program than the one that the probes are in, or its first thread has ended, to which the
    /// kernel ties them.
    fn is_another_program(&self) -> bool {
        false
    }

    /// A process to which a debugger is attached, if one is and the probes are breakpoints in it.
    fn debugged(&self) -> Option<Process> {
        None
    }

    /// The processes whose [pace](crate::Steps) shows what a capture costs; none if the target is no program.
    fn processes(&self) -> Vec<Process> {
        Vec::new()
    }

    /// Processor time of the target so far; `None` if it is no program.
    fn processor_time(&self) -> Option<Duration>;

    /// Processor time of an event. Usually that of a probe in a program.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if the kernel or the rights forbid probes.
    fn event_cost(&self) -> Result<EventCost, CaptureError> {
        calibrate()
    }

    /// The kernel's counters of what the target and the device below its files have written, and of what the target has read.
    fn write_counters(&self) -> WriteCounters {
        WriteCounters::default()
    }

    /// What the events so far say that the target has written and read.
    fn counted_writes(&self) -> CountedWrites {
        CountedWrites::default()
    }

    /// Hits and requests so far, where events show hits.
    fn hits(&self) -> Option<(u64, u64)> {
        None
    }

    /// The position of a page in the order of samples, if the programs can sample.
    fn sample_position(&self, _object: &[u32; 4], _page: u64) -> Option<u64> {
        None
    }
}

/// When a capture ends by itself, and how much it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time.
    pub time: Duration,
    /// The most references.
    pub references: usize,
    /// The largest share of the target's processor time that its events may take.
    pub overhead: f64,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { time: Duration::from_secs(60), references: 20_000_000, overhead: 0.1, ring_bytes: 64 << 20 }
    }
}

/// The state of a capture that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CaptureProgress {
    /// Time since the probes were attached.
    pub time: Duration,
    /// References so far.
    pub references: u64,
    /// References per second in the last second.
    pub rate: f64,
    /// The share of requests that hit in the last second, where events show hits.
    pub hit_ratio: Option<f64>,
    /// Events lost so far.
    pub lost: u64,
    /// The share of the target's processor time that its events took in the last second, by the calibration.
    pub overhead: Option<f64>,
    /// The share of pages that are captured.
    pub sample: f64,
}

/// Why a capture ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time is over.
    Time,
    /// There are as many references as asked for.
    References,
    /// There are more objects than a trace has room for.
    Objects,
    /// The caller stopped it.
    Stopped,
    /// The target ended.
    Target,
    /// The process has no probes any more: it runs another program now, or its first thread has ended.
    Replaced,
    /// A debugger was attached to the target.
    Debugged,
    /// Even a sample would cost more than allowed.
    Overhead,
}

/// What a process pays that is not captured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OtherCost {
    /// Its number.
    pub process: i32,
    /// The share of its processor time.
    pub overhead: f64,
}

/// What a capture was like.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Why it ended.
    pub end: End,
    /// Time from attaching to detaching.
    pub time: Duration,
    /// Time that attaching took.
    pub attaching: Duration,
    /// Time that detaching took.
    pub detaching: Duration,
    /// Events that were handed over.
    pub events: u64,
    /// Events that found no room.
    pub lost: u64,
    /// The largest filled share of the ring.
    pub fill: f64,
    /// The share of pages that were captured.
    pub sample: f64,
    /// The share of the target's processor time that its events took, by the calibration.
    pub overhead: Option<f64>,
    /// The share of the processor time of processes that are not captured and ran into probes which these took; `None` if there are
    /// none.
    pub overhead_of_others: Option<f64>,
    /// Those of them of whose time most was taken, the one that paid most first.
    pub others: Vec<OtherCost>,
    /// What the target and the device below its files wrote meanwhile.
    pub written: WrittenBytes,
    /// What the target read meanwhile.
    pub read: ReadBytes,
}

/// Counters at the start of an interval.
struct Mark {
    at: Instant,
    events: u64,
    lost: u64,
    references: u64,
    hits: Option<(u64, u64)>,
    processor_time: Option<Duration>,
    runs: Runs,
    spent: Duration,
    /// Runs in each process that is not captured, and its processor time.
    others: HashMap<i32, ([u64; 2], Duration)>,
}

struct Session<'a> {
    source: &'a mut dyn CaptureSource,
    probes: Box<dyn EventStream>,
    recorder: CaptureBuffer,
    cost: EventCost,
    limits: Limits,
    started: Instant,
    events: u64,
    /// Events that had found no room at the latest look.
    lost: u64,
    /// Events of which some have found no room are still to be read.
    has_missed: bool,
    fill: f64,
    sample: f64,
    /// Processor time of the target at the latest look.
    used: Option<Duration>,
    /// The target's user.
    owner: Option<u32>,
    /// Processor time of all processes when the capture began; one that is not there began later.
    others_before: HashMap<i32, Duration>,
    /// Their runs and processor time at the latest look, for those that have ended since.
    others_latest: HashMap<i32, ([u64; 2], Duration)>,
}

/// Work that is done again and again, in at most a thirtieth of a processor's time: a target may have any number of open files and
/// processes.
#[derive(Default)]
pub(crate) struct Spaced {
    ended: Option<Instant>,
    took: Duration,
}

impl Spaced {
    /// Works if it is time; `None` if it is not.
    fn run<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        self.run_after(Duration::ZERO, work)
    }

    /// The same, and not before this time has passed since the work before.
    pub(crate) fn run_after<T>(&mut self, least: Duration, work: impl FnOnce() -> T) -> Option<T> {
        const SPACES: u32 = 30;
        let space = self.took.saturating_mul(SPACES).max(least);
        if self.ended.is_some_and(|ended| ended.elapsed() < space) {
            return None;
        }
        let begun = Instant::now();
        let result = work();
        self.took = begun.elapsed();
        self.ended = Some(Instant::now());
        Some(result)
    }
}

/// Captures until a limit is reached, the target ends, or `proceed` returns false; it is called every 20 ms, about once a
/// second with the progress.
///
/// # Errors
///
/// [`CaptureError`] if the probes cannot be attached.
pub fn capture(
    source: &mut dyn CaptureSource,
    limits: Limits,
    cost: EventCost,
    mut proceed: impl FnMut(Option<&CaptureProgress>) -> bool,
) -> Result<(CaptureBuffer, SessionReport), CaptureError> {
    if let Some(process) = source.debugged() {
        return Err(CaptureError::Debugged(process.0));
    }
    let attaching = Instant::now();
    let probes = source.attach(limits.ring_bytes)?;
    let attached = attaching.elapsed();
    let owner = source.processes().first().and_then(|process| process.owner());
    let mut session = Session {
        owner,
        source,
        probes,
        recorder: CaptureBuffer::with_limit(limits.references),
        cost,
        limits,
        started: Instant::now(),
        events: 0,
        lost: 0,
        has_missed: false,
        fill: 0.0,
        sample: 1.0,
        used: None,
        others_before: Process::all().into_iter().filter_map(|it| Some((it.0, it.processor_time()?))).collect(),
        others_latest: HashMap::new(),
    };
    let before = session.source.write_counters();
    session.source.record_resident(&mut session.recorder);
    let first = session.mark();
    let end = session.run(&mut proceed)?;
    let at_last = session.probes.reading_at_last();
    session.drain(at_last);
    session.source.refresh_at_last();
    // Probes are taken off one after the other: until the last one has gone, events of some kinds still come, and of others none.
    let has_read_all = session.drain(at_last);
    let lost = session.probes.lost();
    let after = session.source.write_counters();
    let (time, overhead) = (session.started.elapsed(), session.overhead(&first));
    let (overhead_of_others, others) = session.cost_of_others(&first);
    let detaching = Instant::now();
    session.probes.detach();
    let detaching = detaching.elapsed();
    let unread = match has_read_all {
        true => 0,
        false => {
            session.take_waiting(at_last);
            session.unread()
        }
    };
    session.apply_sample();
    let mut counted = session.source.counted_writes();
    // The kernel counts all pages.
    counted.read_page_bytes = counted.read_page_bytes.filter(|_| session.sample == 1.0);
    let report = SessionReport {
        end,
        time,
        attaching: attached,
        detaching,
        events: session.events,
        lost: lost + unread,
        fill: session.fill,
        sample: session.sample,
        overhead,
        overhead_of_others,
        others,
        written: WrittenBytes::between(&before, &after, counted, time),
        read: ReadBytes::between(&before, &after, counted),
    };
    Ok((session.recorder, report))
}

impl Session<'_> {
    fn run(&mut self, proceed: &mut dyn FnMut(Option<&CaptureProgress>) -> bool) -> Result<End, CaptureError> {
        let mut mark = self.mark();
        let mut expensive = 0;
        let (mut has_read_all, mut refreshing, mut debugging) = (true, Spaced::default(), Spaced::default());
        loop {
            if has_read_all {
                thread::sleep(PAUSE);
            }
            self.fill = self.fill.max(self.probes.fill());
            refreshing.run(|| self.source.refresh());
            has_read_all = self.drain(READING);
            let progress = (mark.at.elapsed() >= REPORT).then(|| self.progress(&mark));
            if let Some(progress) = &progress {
                let is_too_much = self.cost_others_too_much(&mark) || !self.keep_overhead(&mark, progress)?;
                expensive = if is_too_much { expensive + 1 } else { 0 };
                if expensive == EXPENSIVE {
                    return Ok(End::Overhead);
                }
                mark = self.mark();
                self.others_latest.clone_from(&mark.others);
                self.used = mark.processor_time.filter(|time| !time.is_zero()).or(self.used);
            }
            if debugging.run(|| self.source.debugged()).flatten().is_some() {
                return Ok(End::Debugged);
            }
            if !proceed(progress.as_ref()) {
                return Ok(End::Stopped);
            }
            if self.started.elapsed() >= self.limits.time {
                return Ok(End::Time);
            }
            if self.recorder.has_too_many_objects() {
                return Ok(End::Objects);
            }
            if self.recorder.is_full() {
                return Ok(End::References);
            }
            if !self.source.is_alive() {
                return Ok(End::Target);
            }
            if self.source.is_another_program() {
                // A process that is ending shows no program for a moment.
                let ends = (0..20).any(|_| {
                    thread::sleep(Duration::from_millis(10));
                    !self.source.is_alive()
                });
                return Ok(if ends { End::Target } else { End::Replaced });
            }
        }
    }

    /// Reads the events that wait as those of this moment, for at most that long, and none once the recorder is full. True if none is
    /// left.
    fn drain(&mut self, longest: Duration) -> bool {
        self.recorder.now_ms = self.started.elapsed().as_millis() as u32;
        self.take_waiting(longest)
    }

    /// The same for events of the moment of the latest ones.
    fn take_waiting(&mut self, longest: Duration) -> bool {
        /// Events read between two looks at the clock.
        const TOGETHER: u64 = 256;
        let lost = self.probes.lost();
        self.has_missed |= lost > std::mem::replace(&mut self.lost, lost);
        // A large event finds no room where small ones behind it do, so that these may be on either side of it.
        if self.has_missed {
            self.source.miss();
        }
        let begun = Instant::now();
        let (source, recorder, events) = (&mut self.source, &mut self.recorder, &mut self.events);
        let has_read_all = self.probes.drain(&mut |event| {
            *events += 1;
            source.record_event(event, recorder);
            !recorder.is_full() && (*events % TOGETHER != 0 || begun.elapsed() < longest)
        });
        if self.has_missed {
            self.source.miss();
        }
        self.has_missed &= !has_read_all;
        has_read_all
    }

    /// Events that were left unread for want of time, and so are lost. Those behind the last reference are not wanted.
    fn unread(&mut self) -> u64 {
        let mut unread = 0;
        if !self.recorder.is_full() {
            self.probes.drain(&mut |_| {
                unread += 1;
                true
            });
        }
        unread
    }

    fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            events: self.events,
            lost: self.probes.lost(),
            references: self.recorder.len() as u64,
            hits: self.source.hits(),
            processor_time: self.source.processor_time(),
            runs: self.probes.runs(),
            spent: self.probes.spent(),
            others: self.others(),
        }
    }

    /// Runs in the processes that are not captured, and their processor time.
    fn others(&self) -> HashMap<i32, ([u64; 2], Duration)> {
        let mut others = self.others_latest.clone();
        for (process, runs) in self.probes.runs_of_others() {
            let known = others.get(&process).map(|(_, time)| *time);
            let time = Process(process).processor_time().or(known).unwrap_or_default();
            others.insert(process, (runs, time));
        }
        others
    }

    /// Processor time that programs took in each process that is not captured since `mark`, and all that it used.
    fn times_of_others(&self, mark: &Mark) -> Vec<(i32, Duration, Duration)> {
        let times = self.others().into_iter().filter_map(|(process, (runs, time))| {
            let at_mark = mark.others.get(&process);
            let runs_before = at_mark.map_or([0, 0], |(runs, _)| *runs);
            let runs = [0, 1].map(|at| runs[at].saturating_sub(runs_before[at]));
            let before = at_mark.map(|(_, time)| *time).or_else(|| self.others_before.get(&process).copied());
            let used = time.saturating_sub(before.unwrap_or_default());
            let ours = self.time_of_runs([runs[0], runs[1], 0], used, self.cost.outside);
            // Of one that has ended the time is not known.
            (runs != [0, 0]).then(|| (process, ours, used.max(ours)))
        });
        times.collect()
    }

    /// What others pay since `mark`, in all, and by those that pay most.
    fn cost_of_others(&self, mark: &Mark) -> (Option<f64>, Vec<OtherCost>) {
        /// The most processes that are named.
        const MOST: usize = 10;
        let mut times = self.times_of_others(mark);
        times.sort_unstable_by_key(|(_, ours, _)| std::cmp::Reverse(*ours));
        let share = |ours: Duration, used: Duration| ours.as_secs_f64() / used.as_secs_f64();
        let (ours, used) = sum_of(&times);
        let costs = times.iter().take(MOST).filter(|(_, ours, _)| self.is_noticed(*ours, mark));
        let costs = costs.map(|(process, ours, used)| OtherCost { process: *process, overhead: share(*ours, *used) });
        (self.is_noticed(ours, mark).then(|| share(ours, used)), costs.collect())
    }

    /// Processor time of runs, each of which takes `run` where it ends without an event, at places that the kernel emulates and at those that it steps over, in
    /// processes that used this processor time.
    fn time_of_runs(&self, [emulated, stepped, looked]: Runs, used: Duration, run: Duration) -> Duration {
        /// Own work between two runs, in seconds: with less the kernel's code is still in the caches, with more it is not.
        const WARM: f64 = 2e-6;
        const COLD: f64 = 10e-6;
        let EventCost { step, looked: look, cold, .. } = self.cost;
        let runs = (emulated + stepped) as f64;
        let warm = run.mul_f64(runs) + step.mul_f64(stepped as f64) + look.mul_f64(looked as f64);
        let between = used.saturating_sub(warm).as_secs_f64() / runs.max(1.0);
        warm + cold.mul_f64(runs * ((between - WARM) / (COLD - WARM)).clamp(0.0, 1.0))
    }

    /// Processor time of the target since `mark`.
    fn used(&self, mark: &Mark) -> Option<Duration> {
        // Of one that has ended the latest time that was known.
        let now = self.source.processor_time().filter(|time| !time.is_zero()).or(self.used)?;
        now.checked_sub(mark.processor_time?)
    }

    /// Processor time of the programs since `mark`, of that which the target `used`: of those that hand an event over, or find no room for
    /// it, and of all others. With another sample than now there would be more or fewer of the former.
    fn time_of_events(&self, mark: &Mark, used: Duration, sample: f64) -> Duration {
        let lost = self.probes.lost().saturating_sub(mark.lost);
        let captured = (self.events - mark.events + lost) as f64 * sample / self.sample;
        let now = self.probes.runs();
        let runs = [0, 1, 2].map(|at| now[at].saturating_sub(mark.runs[at]));
        let more = self.cost.captured.saturating_sub(self.cost.left_out + self.cost.looked).mul_f64(captured);
        // Programs without counted runs hand over all that they see.
        let uncounted = (captured - (runs[0] + runs[1]) as f64).max(0.0);
        let spent = self.probes.spent().saturating_sub(mark.spent);
        self.time_of_runs(runs, used, self.cost.left_out) + more + self.cost.left_out.mul_f64(uncounted) + spent
    }

    /// The share of the target's processor time that its events took since `mark`.
    fn overhead(&self, mark: &Mark) -> Option<f64> {
        let used = self.used(mark).filter(|used| *used > Duration::ZERO)?;
        // The calibration may have been on a slower processor.
        Some(self.time_of_events(mark, used, self.sample).min(used).as_secs_f64() / used.as_secs_f64())
    }

    fn progress(&self, mark: &Mark) -> CaptureProgress {
        let references = self.recorder.len() as u64;
        let seconds = mark.at.elapsed().as_secs_f64();
        let hits = self.source.hits().zip(mark.hits);
        let hit_ratio = hits.and_then(|(now, before)| {
            let requests = now.1 - before.1;
            (requests > 0).then(|| (now.0 - before.0) as f64 / requests as f64)
        });
        CaptureProgress {
            time: self.started.elapsed(),
            references,
            rate: (references - mark.references) as f64 / seconds,
            hit_ratio,
            lost: self.probes.lost(),
            overhead: self.overhead(mark),
            sample: self.sample,
        }
    }

    /// True if processes that are not captured pay more than allowed since `mark`. No sample makes their runs cheaper. Those of other users
    /// than the target's and root are named, and do not count: any user could end a capture.
    fn cost_others_too_much(&self, mark: &Mark) -> bool {
        let is_counted = |process: i32| Process(process).owner().is_some_and(|owner| owner == 0 || Some(owner) == self.owner);
        let mut times = self.times_of_others(mark);
        times.retain(|(process, ours, _)| *ours > Duration::ZERO && is_counted(*process));
        let (ours, used) = sum_of(&times);
        self.is_noticed(ours, mark) && ours.as_secs_f64() > self.limits.overhead * used.as_secs_f64()
    }

    /// True if this processor time since `mark` is enough to be noticed: a process that does nothing pays a large share of nothing.
    fn is_noticed(&self, ours: Duration, mark: &Mark) -> bool {
        ours.as_secs_f64() > self.probes.least_noticed() * mark.at.elapsed().as_secs_f64()
    }

    /// Samples pages if all of them cost more than allowed. False if even events that are left out would.
    fn keep_overhead(&mut self, mark: &Mark, progress: &CaptureProgress) -> Result<bool, CaptureError> {
        let allowed = self.limits.overhead;
        let used = self.used(mark).unwrap_or_default();
        let is_noticed = self.is_noticed(self.time_of_events(mark, used, self.sample), mark);
        let Some(overhead) = progress.overhead.filter(|it| *it > allowed && is_noticed) else {
            return Ok(true);
        };
        // Half of the pages at least, so that an ordinary second after a busy one changes nothing.
        let mut sample = self.sample / 2.0;
        let now = self.time_of_events(mark, used, self.sample).as_secs_f64();
        let share_of =
            |sample: f64| overhead * self.time_of_events(mark, used, sample).as_secs_f64() / now.max(f64::MIN_POSITIVE);
        while sample > LEAST_SAMPLE && share_of(sample) > allowed {
            sample /= 2.0;
        }
        let can_sample = self.source.sample_position(&[0; 4], 0).is_some();
        if !can_sample || share_of(sample) > allowed {
            return Ok(false);
        }
        self.sample = sample;
        self.probes.limit_sample(limit(sample))?;
        Ok(true)
    }

    /// Removes the references to pages that do not belong to the final sample.
    fn apply_sample(&mut self) {
        if self.sample < 1.0 {
            let (source, limit) = (&self.source, limit(self.sample));
            self.recorder.retain(|object, page| source.sample_position(object, page).is_none_or(|at| at < limit));
        }
    }
}

/// Processor time that was taken of all processes, and what they used.
fn sum_of(times: &[(i32, Duration, Duration)]) -> (Duration, Duration) {
    times.iter().fold((Duration::ZERO, Duration::ZERO), |sum, (_, ours, used)| (sum.0 + *ours, sum.1 + *used))
}

/// After this number of seconds in a row that cost more than allowed a capture ends.
const EXPENSIVE: u32 = 3;

/// The share of a processor that counts as a cost.
const LEAST_NOTICED: f64 = 0.005;

/// The smallest share of pages.
const LEAST_SAMPLE: f64 = 1.0 / 256.0;

fn limit(sample: f64) -> u64 {
    (ALL_PAGES as f64 * sample) as u64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::error::CaptureError;

    /// Events that wait, of which some come while the stream ends.
    struct Ending(Rc<RefCell<Vec<u8>>>);

    impl EventStream for Ending {
        fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
            let waiting = std::mem::take(&mut *self.0.borrow_mut());
            waiting.iter().all(|event| take(&[*event]))
        }
        fn fill(&self) -> f64 {
            0.0
        }
        fn lost(&self) -> u64 {
            0
        }
        fn runs(&self) -> Runs {
            [0; 3]
        }
        fn detach(&mut self) {
            thread::sleep(Duration::from_millis(200));
            self.0.borrow_mut().extend([2; 50]);
        }
    }

    #[derive(Default)]
    struct Ends(Rc<RefCell<Vec<u8>>>);

    impl CaptureSource for Ends {
        fn attach(&mut self, _: u32) -> Result<Box<dyn EventStream>, CaptureError> {
            Ok(Box::new(Ending(Rc::clone(&self.0))))
        }
        fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
            let object = recorder.object([event[0].into(), 0, 0, 0]);
            recorder.reference(object, 0, false, 0);
        }
        fn refresh(&mut self) {
            self.0.borrow_mut().push(1);
        }
        fn is_alive(&self) -> bool {
            true
        }
        fn processes(&self) -> Vec<Process> {
            Vec::new()
        }
        fn processor_time(&self) -> Option<Duration> {
            None
        }
    }

    #[test]
    fn what_comes_while_probes_are_taken_off_is_left_out() {
        let limits = Limits { time: Duration::from_millis(300), ..Limits::default() };
        let none = Duration::ZERO;
        let cost = EventCost { captured: none, left_out: none, outside: none, step: none, looked: none, cold: none };
        let (recorder, report) = capture(&mut Ends::default(), limits, cost, |_| true).expect("a capture");
        assert_eq!(recorder.objects.iter().map(|object| object.key[0]).collect::<Vec<_>>(), [1]);
        let latest = recorder.references.iter().map(|reference| reference.time_ms).max().expect("references");
        assert!(u128::from(latest) <= report.time.as_millis(), "{latest} ms of {:?}", report.time);
        assert!(report.detaching >= Duration::from_millis(200));
        assert_eq!((report.lost, report.events), (0, recorder.references.len() as u64));
    }

    #[test]
    fn work_that_takes_long_is_done_seldom() {
        let (mut spaced, begun) = (Spaced::default(), Instant::now());
        let mut times = 0u32;
        while begun.elapsed() < Duration::from_millis(500) {
            times += u32::from(spaced.run(|| thread::sleep(Duration::from_millis(10))).is_some());
            thread::sleep(Duration::from_millis(1));
        }
        assert!((1..=2).contains(&times), "{times}");
        let mut quick = Spaced::default();
        assert!(quick.run(|| ()).is_some());
    }
}
