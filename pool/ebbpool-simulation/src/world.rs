//! A run: its threads, its clock, and the turn that one thread has.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::random::Random;
use crate::strategy::Strategy;
use crate::worker::Worker;

/// The default number of steps after which a run that has not ended fails.
const STEP_LIMIT: u64 = 5_000_000;

/// More steps than any undisturbed work makes.
const UNDISTURBED: u64 = 1 << 40;

/// One switch in this many wakes a waiter spuriously.
const SPURIOUS: u64 = 64;

/// What a blocked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockedOn {
    /// The lock at this address.
    Lock(usize),
    /// The condition variable at this address.
    Condvar(usize),
    /// The end of another thread.
    End(usize),
    /// Only a deadline.
    Time,
}

/// Why a blocked thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    Notified,
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Runnable,
    Blocked {
        on: BlockedOn,
        deadline: Option<Duration>,
        at: &'static Location<'static>,
        /// It blocked while it unwound, and cannot unwind once more.
        unwinding: bool,
    },
    Ended,
}

struct Task {
    name: String,
    status: Status,
    woken: WakeReason,
    priority: u64,
    worker: Arc<Worker>,
}

/// A run's shared state. Its locks are real ones: a simulated thread holds them only for a moment, and never while it
/// hands the turn over.
pub(crate) struct World {
    seed: u64,
    state: Mutex<State>,
    over: Condvar,
}

struct State {
    tasks: Vec<Task>,
    random: Random,
    /// Random numbers for the scenario, which do not depend on the schedule's random numbers.
    scenario: Random,
    strategy: Strategy,
    spurious: bool,
    now: Duration,
    quantum: Duration,
    steps: u64,
    step_limit: u64,
    /// The number of steps at the last switch.
    switched_at: u64,
    switches: u64,
    preemptions: u64,
    preemptions_left: u64,
    hash: u64,
    lowest_priority: u64,
    failure: Option<(FailureCause, u64)>,
    /// No thread can go on, and some are in the middle of unwinding: these are abandoned.
    stuck: bool,
    over: bool,
}

/// The number of steps that the running thread may still make before the scheduler decides.
struct Steps {
    left: Cell<u64>,
    granted: Cell<u64>,
}

#[derive(Clone)]
struct Current {
    world: Arc<World>,
    task: usize,
}

thread_local! {
    static STEPS: Steps = const { Steps { left: Cell::new(0), granted: Cell::new(0) } };
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    static LAST_PANIC: RefCell<Option<(String, Backtrace)>> = const { RefCell::new(None) };
}

/// The payload with which threads unwind when their run has failed.
struct RunHasEnded;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// A thread ended with a panic.
    Panic {
        /// Its name.
        thread: String,
        /// The message and place of the panic.
        message: String,
    },
    /// All threads are blocked, and no deadline is left.
    Deadlock {
        /// The threads, and what each waits for.
        threads: String,
    },
    /// The run has not ended within its limit of steps.
    NoProgress {
        /// The threads, and what each is doing.
        threads: String,
    },
}

/// A run that failed. The same seed, limits and program give the same failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// Why it failed.
    pub cause: FailureCause,
    /// The number of steps until then.
    pub step: u64,
    /// The number of preemptions until then.
    pub preemptions: u64,
    /// The time until then, by the run's clock.
    pub time: Duration,
    /// A hash of the schedule until then.
    pub schedule_hash: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            FailureCause::Panic { thread, message } => {
                write!(f, "thread '{thread}' panicked: {message}")
            }
            FailureCause::Deadlock { threads } => write!(f, "no thread can go on:\n{threads}"),
            FailureCause::NoProgress { threads } => write!(f, "the run does not end:\n{threads}"),
        }?;
        write!(f, "\n(seed {}, step {}, {} preemptions, after {:?})", self.seed, self.step, self.preemptions, self.time)
    }
}

impl std::error::Error for Failure {}

/// A run that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationOutcome<R> {
    /// The return value of the first thread.
    pub value: R,
    /// The number of operations on primitives.
    pub steps: u64,
    /// The number of times that another thread got the turn.
    pub switches: u64,
    /// The number of times that a thread was interrupted that could go on.
    pub preemptions: u64,
    /// How long it took, by the run's clock.
    pub time: Duration,
    /// A hash of the schedule: two runs with the same hash had the same schedule.
    pub schedule_hash: u64,
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Simulation {
    seed: u64,
    step_limit: u64,
    preemptions: u64,
}

impl Simulation {
    /// A run in which everything follows from the seed.
    pub fn new(seed: u64) -> Self {
        Simulation { seed, step_limit: STEP_LIMIT, preemptions: u64::MAX }
    }

    /// A run that has not ended after this number of steps fails; 5 million by default.
    pub fn step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }

    /// The scheduler interrupts threads that could go on at most this many times; after that another thread gets the
    /// turn only if a thread blocks, sleeps or ends.
    pub fn preemptions(mut self, most: u64) -> Self {
        self.preemptions = most;
        self
    }

    /// Runs `first` as the first simulated thread, and returns when all threads have ended.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub fn run<R: Send + 'static>(&self, first: impl FnOnce() -> R + Send + 'static) -> Result<SimulationOutcome<R>, Failure> {
        catch_panic_messages();
        let world = Arc::new(World::new(self));
        let answer = Arc::new(Mutex::new(None));
        let into = Arc::clone(&answer);
        let first = move || *into.lock() = Some(first());
        world.start("first", Box::new(first)).map_err(|error| {
            let message = format!("a thread cannot be started: {error}");
            let thread = "first".into();
            world.failed(FailureCause::Panic { thread, message })
        })?;
        let state = world.run_to_the_end();
        match (&state.failure, answer.lock().take()) {
            (None, Some(value)) => Ok(SimulationOutcome {
                value,
                steps: state.steps,
                switches: state.switches,
                preemptions: state.preemptions,
                time: state.now,
                schedule_hash: state.hash,
            }),
            (Some((cause, step)), _) => Err(Failure { step: *step, ..state.failure(world.seed, cause.clone()) }),
            (None, None) => Err(state.failure(
                world.seed,
                FailureCause::Panic { thread: "first".into(), message: "it ended without a value".into() },
            )),
        }
    }
}

/// Runs `first` as the first simulated thread of a run with this seed.
///
/// # Errors
///
/// [`Failure`].
pub fn simulate<R: Send + 'static>(
    seed: u64,
    first: impl FnOnce() -> R + Send + 'static,
) -> Result<SimulationOutcome<R>, Failure> {
    Simulation::new(seed).run(first)
}

/// The smallest limit on preemptions with which a run fails that fails with `most`. It is found by halving, so a
/// smaller limit that fails below a larger one that does not may be missed.
pub fn fewest_preemptions(most: u64, mut fails: impl FnMut(u64) -> bool) -> u64 {
    let (mut passes, mut fewest) = (0, most);
    if fails(0) {
        return 0;
    }
    while fewest - passes > 1 {
        let middle = passes + (fewest - passes) / 2;
        match fails(middle) {
            true => fewest = middle,
            false => passes = middle,
        }
    }
    fewest
}

/// True in a simulated thread.
pub fn is_simulated() -> bool {
    current().is_some()
}

/// The number of the calling thread in its run, from 0; `None` outside a run.
pub fn thread_number() -> Option<usize> {
    let number = CURRENT.try_with(|current| current.borrow().as_ref().map(|it| it.task));
    number.ok().flatten()
}

/// A random number for the scenario, from a source of the run's own; 0 outside a run.
pub fn random() -> u64 {
    current().map_or(0, |it| it.world.state.lock().scenario.number())
}

/// Ends the run as failed, and panics. The run fails even if the code under test catches the panic.
///
/// # Panics
///
/// Always.
pub fn fail(message: String) -> ! {
    if let Some(it) = current() {
        let mut state = it.world.state.lock();
        state.account();
        let thread = state.tasks[it.task].name.clone();
        state.fail(FailureCause::Panic { thread, message: message.clone() });
        drop(state);
        grant(0);
        if !std::thread::panicking() {
            resume_unwind(Box::new(RunHasEnded));
        }
    }
    panic!("{message}")
}

/// The number of steps that the run has made so far; 0 outside a run.
pub fn steps_so_far() -> u64 {
    let Some(it) = current() else { return 0 };
    let mut state = it.world.state.lock();
    state.account();
    state.steps
}

fn current() -> Option<Current> {
    let current = CURRENT.try_with(|current| current.borrow().clone());
    current.ok().flatten()
}

/// A step of the calling thread: another one may get the turn. Every operation on a primitive is a step; a scenario
/// adds its own steps where threads interact in other ways.
#[inline]
pub fn step() {
    let is_due = STEPS.with(|steps| {
        let left = steps.left.get();
        steps.left.set(left.saturating_sub(1));
        left == 0
    });
    if is_due {
        schedule();
    }
}

#[cold]
fn schedule() {
    match current() {
        Some(it) => it.world.step(it.task),
        None => grant(u64::MAX),
    }
}

/// Does `work` without giving the turn away, unless it blocks: for side work of a scenario, or work that it does very
/// often.
pub fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    if !is_simulated() {
        return work();
    }
    let left = STEPS.with(|steps| {
        let left = steps.left.get();
        steps.granted.set(steps.granted.get() + UNDISTURBED);
        steps.left.set(left + UNDISTURBED);
        left
    });
    let answer = work();
    STEPS.with(|steps| {
        // The steps made meanwhile count for the clock and the limit, and the rest is taken back.
        let rest = steps.left.get().saturating_sub(left);
        if rest <= UNDISTURBED && steps.left.get() > left {
            steps.granted.set(steps.granted.get() - rest);
            steps.left.set(left);
        }
    });
    answer
}

fn grant(stretch: u64) {
    STEPS.with(|steps| {
        steps.left.set(stretch);
        steps.granted.set(stretch);
    });
}

/// The calling thread, for a primitive that may have to block; `None` outside a run.
pub(crate) fn blocking() -> Option<Blocking> {
    current().map(Blocking)
}

/// A simulated thread that may block.
pub(crate) struct Blocking(Current);

impl Blocking {
    /// Blocks until another thread wakes it, or until the deadline.
    pub(crate) fn block(&self, on: BlockedOn, deadline: Option<Duration>, at: &'static Location<'static>) -> WakeReason {
        let Current { world, task } = &self.0;
        world.block(*task, on, deadline, at)
    }

    pub(crate) fn wake_all(&self, on: BlockedOn) {
        self.0.world.state.lock().wake_all(on);
    }

    /// Wakes one of the threads that wait; the seed decides which.
    pub(crate) fn wake_one(&self, on: BlockedOn) {
        self.0.world.state.lock().wake_one(on);
    }

    pub(crate) fn now(&self) -> Duration {
        let mut state = self.0.world.state.lock();
        state.account();
        state.now
    }

    /// True once in `count` times, if the run has spurious events.
    pub(crate) fn one_in(&self, count: u64) -> bool {
        let mut state = self.0.world.state.lock();
        state.spurious && state.random.one_in(count)
    }

    /// Starts a simulated thread; returns its number.
    pub(crate) fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<usize> {
        self.0.world.start(name, work)
    }

    /// Makes a thread that is started elsewhere a simulated one; that thread calls [`AdoptedThread::run`].
    pub(crate) fn adopt(&self, name: &str) -> AdoptedThread {
        let worker = Worker::unbound();
        let task = self.0.world.state.lock().add(name, Arc::clone(&worker));
        AdoptedThread { world: Arc::clone(&self.0.world), task, worker }
    }

    pub(crate) fn has_ended(&self, task: usize) -> bool {
        self.0.world.state.lock().tasks[task].status == Status::Ended
    }
}

/// A simulated thread that the run has not started itself.
pub(crate) struct AdoptedThread {
    world: Arc<World>,
    pub(crate) task: usize,
    worker: Arc<Worker>,
}

impl AdoptedThread {
    /// Does `work` as a simulated thread.
    pub(crate) fn run(self, work: impl FnOnce()) {
        self.worker.bind();
        self.worker.wait_for_turn();
        self.world.run_task(self.task, &self.worker, work);
    }
}

impl World {
    fn new(of: &Simulation) -> Self {
        let mut random = Random::new(of.seed);
        let strategy = Strategy::draw(&mut random);
        let quantum = random.pick(&[50, 200, 1_000, 1_000, 5_000]);
        let spurious = random.one_in(2);
        World {
            seed: of.seed,
            state: Mutex::new(State {
                tasks: Vec::new(),
                scenario: Random::new(of.seed.rotate_left(32) ^ 0x5ce9_a610),
                strategy,
                spurious,
                now: Duration::ZERO,
                quantum: Duration::from_nanos(quantum),
                steps: 0,
                step_limit: of.step_limit,
                switched_at: 0,
                switches: 0,
                preemptions: 0,
                preemptions_left: of.preemptions,
                hash: of.seed,
                lowest_priority: u64::MAX / 2,
                failure: None,
                stuck: false,
                over: false,
                random,
            }),
            over: Condvar::new(),
        }
    }

    fn start(self: &Arc<Self>, name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<usize> {
        // The job needs its worker and its number, which are known only afterwards.
        let own = Arc::new(Mutex::new(None::<(usize, Arc<Worker>)>));
        let (world, assigned) = (Arc::clone(self), Arc::clone(&own));
        let worker = Worker::with_job(Box::new(move || {
            let found = assigned.lock().take();
            if let Some((task, worker)) = found {
                world.run_task(task, &worker, work);
            }
        }))?;
        let task = self.state.lock().add(name, Arc::clone(&worker));
        *own.lock() = Some((task, worker));
        Ok(task)
    }

    /// The body of a simulated thread, from its first turn to its end.
    fn run_task(self: &Arc<Self>, task: usize, worker: &Worker, work: impl FnOnce()) {
        let world = Arc::clone(self);
        CURRENT.set(Some(Current { world, task }));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.go_on(worker.stretch());
            work();
        }));
        let panicked = outcome.err().filter(|it| !it.is::<RunHasEnded>());
        let message = panicked.map(message);
        self.end(task, message);
        CURRENT.set(None);
        grant(0);
    }

    /// The calling thread has got the turn.
    fn go_on(&self, stretch: u64) {
        grant(stretch);
        if stretch == 0 && !std::thread::panicking() && self.state.lock().failure.is_some() {
            resume_unwind(Box::new(RunHasEnded));
        }
    }

    fn step(&self, task: usize) {
        let mut state = self.state.lock();
        state.account();
        state.steps += 1;
        if std::thread::panicking() {
            // It is unwinding, and all that it does meanwhile is one step.
            return grant(u64::from(u32::MAX));
        }
        if state.failure.is_some() {
            drop(state);
            return self.go_on(0);
        }
        if state.steps >= state.step_limit {
            let threads = state.describe();
            state.fail(FailureCause::NoProgress { threads });
            drop(state);
            return self.go_on(0);
        }
        state.wake_expired();
        let next = state.after_a_stretch(task);
        self.hand_over(state, task, next);
    }

    fn block(&self, task: usize, on: BlockedOn, deadline: Option<Duration>, at: &'static Location<'static>) -> WakeReason {
        let mut state = self.state.lock();
        state.account();
        state.steps += 1;
        let unwinding = std::thread::panicking();
        if state.failure.is_some() {
            if !unwinding {
                drop(state);
                resume_unwind(Box::new(RunHasEnded));
            }
            if deadline.is_some() {
                return WakeReason::TimedOut;
            }
        }
        state.tasks[task].status = Status::Blocked { on, deadline, at, unwinding };
        match state.next_of_all() {
            Some(next) => self.hand_over(state, task, next),
            None => self.abandon_stuck_threads(state, task),
        }
        self.state.lock().tasks[task].woken
    }

    /// Ends the run when every thread that is left has blocked while it unwound after the run had failed.
    fn abandon_stuck_threads(&self, mut state: MutexGuard<'_, State>, task: usize) {
        state.stuck = true;
        state.over = true;
        let worker = Arc::clone(&state.tasks[task].worker);
        drop(state);
        self.over.notify_all();
        loop {
            worker.wait_for_turn();
        }
    }

    fn hand_over(&self, mut state: MutexGuard<'_, State>, from: usize, to: usize) {
        let stretch = state.stretch_for(to, from != to);
        if from == to {
            drop(state);
            return self.go_on(stretch);
        }
        let theirs = Arc::clone(&state.tasks[to].worker);
        let own = Arc::clone(&state.tasks[from].worker);
        drop(state);
        theirs.grant(stretch);
        let stretch = own.wait_for_turn();
        self.go_on(stretch);
    }

    fn end(&self, task: usize, panicked: Option<String>) {
        let mut state = self.state.lock();
        state.account();
        state.steps += 1;
        state.tasks[task].status = Status::Ended;
        state.wake_all(BlockedOn::End(task));
        if let Some(message) = panicked {
            let thread = state.tasks[task].name.clone();
            state.fail(FailureCause::Panic { thread, message });
        }
        if state.tasks.iter().all(|task| task.status == Status::Ended) {
            state.over = true;
        }
        let next = match state.over {
            true => None,
            false => state.next_of_all(),
        };
        let Some(next) = next else {
            state.stuck = !state.over;
            state.over = true;
            drop(state);
            self.over.notify_all();
            return;
        };
        let stretch = state.stretch_for(next, true);
        let theirs = Arc::clone(&state.tasks[next].worker);
        drop(state);
        theirs.grant(stretch);
    }

    fn failed(&self, cause: FailureCause) -> Failure {
        self.state.lock().failure(self.seed, cause)
    }

    /// Called from outside the run: gives the first thread its turn, and waits until all threads have ended.
    fn run_to_the_end(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let stretch = state.stretch_for(0, true);
        let first = Arc::clone(&state.tasks[0].worker);
        drop(state);
        first.grant(stretch);
        let mut state = self.state.lock();
        while !state.over {
            self.over.wait(&mut state);
        }
        if !state.stuck {
            for task in &mut state.tasks {
                let worker = std::mem::replace(&mut task.worker, Worker::unbound());
                worker.give_back();
            }
        }
        state
    }
}

impl State {
    fn add(&mut self, name: &str, worker: Arc<Worker>) -> usize {
        let priority = self.lowest_priority + self.random.number() / 2;
        self.tasks.push(Task { name: name.into(), status: Status::Runnable, woken: WakeReason::Notified, priority, worker });
        self.interrupt_soon(priority);
        self.tasks.len() - 1
    }

    /// Adds the steps that the running thread has made since it got the turn, or since the last call.
    fn account(&mut self) {
        let made = STEPS.with(|steps| {
            let made = steps.granted.get() - steps.left.get();
            steps.granted.set(steps.left.get());
            made
        });
        self.steps += made;
        let passed = self.quantum * u32::try_from(made + 1).unwrap_or(u32::MAX);
        self.now = self.now.saturating_add(passed);
    }

    /// A thread of this priority can run: if priorities count, the scheduler decides again at the next step.
    fn interrupt_soon(&mut self, _priority: u64) {
        if self.strategy.has_priorities() {
            STEPS.with(|steps| {
                steps.granted.set(steps.granted.get() - steps.left.get());
                steps.left.set(0);
            });
        }
    }

    fn wake(&mut self, task: usize, woken: WakeReason) {
        let task = &mut self.tasks[task];
        task.status = Status::Runnable;
        task.woken = woken;
        let priority = task.priority;
        self.interrupt_soon(priority);
    }

    fn waiting(&self, on: BlockedOn) -> impl Iterator<Item = usize> + '_ {
        let waits = move |task: &Task| matches!(task.status, Status::Blocked { on: other, .. } if other == on);
        (0..self.tasks.len()).filter(move |&at| waits(&self.tasks[at]))
    }

    fn wake_all(&mut self, on: BlockedOn) {
        for task in self.waiting(on).collect::<Vec<_>>() {
            self.wake(task, WakeReason::Notified);
        }
    }

    fn wake_one(&mut self, on: BlockedOn) {
        let waiting: Vec<usize> = self.waiting(on).collect();
        if !waiting.is_empty() {
            let one = self.random.pick(&waiting);
            self.wake(one, WakeReason::Notified);
        }
    }

    fn wake_expired(&mut self) {
        for task in 0..self.tasks.len() {
            if let Status::Blocked { deadline: Some(deadline), .. } = self.tasks[task].status
                && deadline <= self.now
            {
                self.wake(task, WakeReason::TimedOut);
            }
        }
    }

    fn wake_spuriously(&mut self) {
        if self.spurious && self.random.one_in(SPURIOUS) {
            let waiting: Vec<usize> = (0..self.tasks.len())
                .filter(|&at| {
                    let status = self.tasks[at].status;
                    matches!(status, Status::Blocked { on: BlockedOn::Condvar(_), .. })
                })
                .collect();
            if !waiting.is_empty() {
                let one = self.random.pick(&waiting);
                self.wake(one, WakeReason::Notified);
            }
        }
    }

    fn runnable(&self) -> Vec<usize> {
        let runs = |&at: &usize| self.tasks[at].status == Status::Runnable;
        (0..self.tasks.len()).filter(runs).collect()
    }

    /// The thread that goes on after the running thread has used up its granted steps.
    fn after_a_stretch(&mut self, task: usize) -> usize {
        let since_switch = self.steps - self.switched_at;
        let has_to_yield = self.strategy.has_to_yield(self.steps, since_switch);
        let forced = since_switch >= crate::strategy::FAIR;
        if self.preemptions_left == 0 && !forced {
            return task;
        }
        let others: Vec<usize> = self.runnable().into_iter().filter(|&at| at != task).collect();
        if others.is_empty() {
            return task;
        }
        let next = if self.strategy.has_priorities() {
            if has_to_yield {
                self.lowest_priority -= 1;
                self.tasks[task].priority = self.lowest_priority;
            }
            self.first_by_priority()
        } else {
            self.random.pick(&others)
        };
        if next != task {
            self.preemptions += 1;
            self.preemptions_left = self.preemptions_left.saturating_sub(1);
        }
        next
    }

    fn first_by_priority(&self) -> usize {
        let runnable = self.runnable().into_iter();
        let first = runnable.max_by_key(|&at| self.tasks[at].priority);
        first.unwrap_or_default()
    }

    /// The thread that goes on when the running thread cannot; `None` if the run is over.
    fn next_of_all(&mut self) -> Option<usize> {
        if self.failure.is_none() {
            self.wake_spuriously();
            self.wake_expired();
            let mut runnable = self.runnable();
            while runnable.is_empty() {
                let deadlines = self.tasks.iter().filter_map(|task| match task.status {
                    Status::Blocked { deadline, .. } => deadline,
                    _ => None,
                });
                let Some(next) = deadlines.min() else {
                    let threads = self.describe();
                    self.fail(FailureCause::Deadlock { threads });
                    break;
                };
                self.now = self.now.max(next);
                self.wake_expired();
                runnable = self.runnable();
            }
            if !runnable.is_empty() {
                return Some(match self.strategy.has_priorities() {
                    true => self.first_by_priority(),
                    false => self.random.pick(&runnable),
                });
            }
        }
        self.next_to_unwind()
    }

    /// The next thread that unwinds after a failure: they unwind one after the other.
    fn next_to_unwind(&mut self) -> Option<usize> {
        let next = self.tasks.iter().position(|task| match task.status {
            Status::Runnable => true,
            Status::Blocked { unwinding, .. } => !unwinding,
            Status::Ended => false,
        })?;
        self.tasks[next].status = Status::Runnable;
        Some(next)
    }

    fn stretch_for(&mut self, next: usize, switched: bool) -> u64 {
        if switched {
            self.switches += 1;
            self.switched_at = self.steps;
        }
        let mixed = self.hash ^ self.steps.rotate_left(32) ^ next as u64;
        self.hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        if self.failure.is_some() {
            return 0;
        }
        let stretch = self.strategy.stretch(self.steps, &mut self.random);
        stretch.min(self.step_limit.saturating_sub(self.steps + 1))
    }

    fn fail(&mut self, cause: FailureCause) {
        let step = self.steps;
        self.failure.get_or_insert((cause, step));
    }

    fn failure(&self, seed: u64, cause: FailureCause) -> Failure {
        Failure { seed, cause, step: self.steps, preemptions: self.preemptions, time: self.now, schedule_hash: self.hash }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            let name = &task.name;
            let _ = match task.status {
                Status::Runnable => writeln!(text, "  '{name}' runs"),
                Status::Blocked { on, deadline, at, .. } => {
                    let what = match on {
                        BlockedOn::Lock(_) => "a lock".to_string(),
                        BlockedOn::Condvar(_) => "a condition".to_string(),
                        BlockedOn::End(other) => format!("the end of '{}'", self.tasks[other].name),
                        BlockedOn::Time => "its time".to_string(),
                    };
                    match deadline {
                        Some(until) => {
                            writeln!(text, "  '{name}' waits at {at} for {what}, until {until:?}")
                        }
                        None => writeln!(text, "  '{name}' waits at {at} for {what}"),
                    }
                }
                Status::Ended => Ok(()),
            };
        }
        let _ = write!(text, "  it is {:?}", self.now);
        text
    }
}

fn message(payload: Box<dyn Any + Send>) -> String {
    if let Some((mut message, trace)) = LAST_PANIC.take() {
        // Resolving the trace takes long, and most panics are expected.
        if trace.status() == BacktraceStatus::Captured {
            let _ = write!(message, "\n{trace}");
        }
        return message;
    }
    let payload = match payload.downcast::<String>() {
        Ok(text) => return *text,
        Err(other) => other,
    };
    let text = payload.downcast_ref::<&str>();
    text.map_or("without a message".into(), |text| text.to_string())
}

/// Panics of simulated threads are reported by their run, or expected by it.
fn catch_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = std::env::var_os("EBBPOOL_PANICS").is_some();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if shown || !is_simulated() {
                before(info);
            }
            let what = info.payload_as_str().unwrap_or("a payload that is not text");
            let at = info.location().map(|at| format!(", at {at}"));
            let message = format!("{what}{}", at.unwrap_or_default());
            let last = (message, Backtrace::capture());
            let _ = LAST_PANIC.try_with(|it| it.replace(Some(last)));
        }));
    });
}
