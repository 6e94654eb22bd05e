//! A run: its threads, its clock, and who has the turn.

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

/// Steps after which a run that has not ended fails, unless the caller says otherwise.
const STEP_LIMIT: u64 = 5_000_000;

/// More steps than anything makes undisturbed.
const UNDISTURBED: u64 = 1 << 40;

/// One switch in this many wakes a waiter for no reason.
const SPURIOUS: u64 = 64;

/// What a blocked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The lock at this address.
    Lock(usize),
    /// The condition variable at this address.
    Condvar(usize),
    /// The end of another thread.
    End(usize),
    /// Time only.
    Time,
}

/// Why a thread goes on that was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Notified,
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Runnable,
    Blocked {
        on: On,
        deadline: Option<Duration>,
        at: &'static Location<'static>,
        /// It blocked while it unwound: it cannot be made to unwind once more.
        unwinding: bool,
    },
    Ended,
}

struct Task {
    name: String,
    status: Status,
    woken: Woken,
    priority: u64,
    worker: Arc<Worker>,
}

/// A run's shared state. Real locks: a simulated thread holds them for a moment only, and never while it
/// hands over.
pub(crate) struct World {
    seed: u64,
    state: Mutex<State>,
    over: Condvar,
}

struct State {
    tasks: Vec<Task>,
    random: Random,
    /// For the scenario, so that what it draws does not depend on the schedule's draws.
    scenario: Random,
    strategy: Strategy,
    spurious: bool,
    now: Duration,
    quantum: Duration,
    steps: u64,
    step_limit: u64,
    /// Steps at the last switch.
    switched_at: u64,
    switches: u64,
    preemptions: u64,
    preemptions_left: u64,
    hash: u64,
    lowest_priority: u64,
    failure: Option<(Cause, u64)>,
    /// No thread can go on, and some are in the middle of unwinding: they are left behind.
    stuck: bool,
    over: bool,
}

/// The steps that the running thread may still make before it asks the scheduler.
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
pub enum Cause {
    /// A panic left a thread.
    Panic {
        /// Its name.
        thread: String,
        /// What the panic said, and where.
        message: String,
    },
    /// All threads are blocked, and no deadline is left.
    Deadlock {
        /// Who waits for what.
        threads: String,
    },
    /// The run has not ended within its limit of steps.
    NoProgress {
        /// What the threads are at.
        threads: String,
    },
}

/// A run that failed. The same seed, limits and program give the same failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// Why.
    pub cause: Cause,
    /// Steps until then.
    pub step: u64,
    /// How often until then a thread was interrupted that could go on.
    pub preemptions: u64,
    /// Time until then, by the run's clock.
    pub time: Duration,
    /// As [`Outcome::schedule_hash`], until then.
    pub schedule_hash: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Panic { thread, message } => write!(f, "thread '{thread}' panicked: {message}"),
            Cause::Deadlock { threads } => write!(f, "no thread can go on:\n{threads}"),
            Cause::NoProgress { threads } => write!(f, "the run does not end:\n{threads}"),
        }?;
        write!(
            f,
            "\n(seed {}, step {}, {} preemptions, after {:?})",
            self.seed, self.step, self.preemptions, self.time
        )
    }
}

impl std::error::Error for Failure {}

/// A run that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R> {
    /// What the first thread answered.
    pub value: R,
    /// Operations on primitives.
    pub steps: u64,
    /// How often another thread got the turn.
    pub switches: u64,
    /// How often a thread was interrupted that could go on.
    pub preemptions: u64,
    /// How long it took, by the run's clock.
    pub time: Duration,
    /// Of who got the turn when: two runs with one hash had the same schedule.
    pub schedule_hash: u64,
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Simulation {
    seed: u64,
    step_limit: u64,
    preemptions: u64,
}

impl Simulation {
    /// Everything follows from the seed.
    pub fn new(seed: u64) -> Self {
        Simulation {
            seed,
            step_limit: STEP_LIMIT,
            preemptions: u64::MAX,
        }
    }

    /// A run that has not ended after this many steps fails; 5 million without this.
    pub fn step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }

    /// The scheduler interrupts a thread that could go on at most this many times; after that the turn passes
    /// only where a thread blocks, sleeps or ends.
    pub fn preemptions(mut self, most: u64) -> Self {
        self.preemptions = most;
        self
    }

    /// Runs `first` as the first simulated thread, and returns when all threads have ended.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub fn run<R: Send + 'static>(
        &self,
        first: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Outcome<R>, Failure> {
        catch_panic_messages();
        let world = Arc::new(World::new(self));
        let answer = Arc::new(Mutex::new(None));
        let into = Arc::clone(&answer);
        let first = move || *into.lock() = Some(first());
        world.start("first", Box::new(first)).map_err(|error| {
            let message = format!("a thread cannot be started: {error}");
            let thread = "first".into();
            world.failed(Cause::Panic { thread, message })
        })?;
        let state = world.run_to_the_end();
        match (&state.failure, answer.lock().take()) {
            (None, Some(value)) => Ok(Outcome {
                value,
                steps: state.steps,
                switches: state.switches,
                preemptions: state.preemptions,
                time: state.now,
                schedule_hash: state.hash,
            }),
            (Some((cause, step)), _) => Err(Failure {
                step: *step,
                ..state.failure(world.seed, cause.clone())
            }),
            (None, None) => Err(state.failure(
                world.seed,
                Cause::Panic {
                    thread: "first".into(),
                    message: "it ended without an answer".into(),
                },
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
) -> Result<Outcome<R>, Failure> {
    Simulation::new(seed).run(first)
}

/// The smallest limit on preemptions with which a run fails that fails with `most`, by halving: where a
/// smaller limit fails and a larger one does not, it may be missed.
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

/// The number of the calling thread in its run, from 0; none outside a run.
pub fn thread_number() -> Option<usize> {
    let number = CURRENT.try_with(|current| current.borrow().as_ref().map(|it| it.task));
    number.ok().flatten()
}

/// Any number, from a stream of the run's own, for what the scenario draws while it runs; 0 outside a run.
pub fn random() -> u64 {
    current().map_or(0, |it| it.world.state.lock().scenario.any())
}

/// Ends the run as failed, whatever becomes of the panic that this is: code under test may catch it.
///
/// # Panics
///
/// Always.
pub fn fail(message: String) -> ! {
    if let Some(it) = current() {
        let mut state = it.world.state.lock();
        state.account();
        let thread = state.tasks[it.task].name.clone();
        state.fail(Cause::Panic {
            thread,
            message: message.clone(),
        });
        drop(state);
        grant(0);
        if !std::thread::panicking() {
            resume_unwind(Box::new(RunHasEnded));
        }
    }
    panic!("{message}")
}

/// Steps that the run has made so far; 0 outside a run.
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

/// A step of the calling thread: another one may get the turn. Every operation on a primitive is one; a scenario
/// adds its own where threads meet otherwise.
#[inline]
pub fn step() {
    let asks = STEPS.with(|steps| {
        let left = steps.left.get();
        steps.left.set(left.saturating_sub(1));
        left == 0
    });
    if asks {
        ask();
    }
}

#[cold]
fn ask() {
    match current() {
        Some(it) => it.world.step(it.task),
        None => grant(u64::MAX),
    }
}

/// Does `work` without giving the turn away, unless it blocks: for what a scenario does by the way, or very
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
        // What was made meanwhile counts for the clock and the limit, and the rest is taken back.
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

/// What a primitive does that has to block; nothing outside a run.
pub(crate) fn blocking() -> Option<Blocking> {
    current().map(Blocking)
}

/// A simulated thread that may block.
pub(crate) struct Blocking(Current);

impl Blocking {
    /// Blocks until another thread wakes it, or until the deadline.
    pub(crate) fn block(
        &self,
        on: On,
        deadline: Option<Duration>,
        at: &'static Location<'static>,
    ) -> Woken {
        let Current { world, task } = &self.0;
        world.block(*task, on, deadline, at)
    }

    pub(crate) fn wake_all(&self, on: On) {
        self.0.world.state.lock().wake_all(on);
    }

    /// Wakes one of those that wait, which one follows from the seed.
    pub(crate) fn wake_one(&self, on: On) {
        self.0.world.state.lock().wake_one(on);
    }

    pub(crate) fn now(&self) -> Duration {
        let mut state = self.0.world.state.lock();
        state.account();
        state.now
    }

    /// True once in `count` times, where the run has such events.
    pub(crate) fn one_in(&self, count: u64) -> bool {
        let mut state = self.0.world.state.lock();
        state.spurious && state.random.one_in(count)
    }

    /// Starts a simulated thread; answers its number.
    pub(crate) fn start(
        &self,
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<usize> {
        self.0.world.start(name, work)
    }

    /// Makes a thread that was started otherwise a simulated one; it is to call [`join_run`].
    pub(crate) fn adopt(&self, name: &str) -> Place {
        let worker = Worker::unbound();
        let task = self.0.world.state.lock().add(name, Arc::clone(&worker));
        Place {
            world: Arc::clone(&self.0.world),
            task,
            worker,
        }
    }

    pub(crate) fn has_ended(&self, task: usize) -> bool {
        self.0.world.state.lock().tasks[task].status == Status::Ended
    }
}

/// The place in a run of a thread that is not the run's own.
pub(crate) struct Place {
    world: Arc<World>,
    pub(crate) task: usize,
    worker: Arc<Worker>,
}

impl Place {
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

    fn start(
        self: &Arc<Self>,
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<usize> {
        // The job needs to know its worker and its number, which are known only afterwards.
        let own = Arc::new(Mutex::new(None::<(usize, Arc<Worker>)>));
        let (world, known) = (Arc::clone(self), Arc::clone(&own));
        let worker = Worker::with_job(Box::new(move || {
            let found = known.lock().take();
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
            // It is unwinding, and what it does by the way is one step.
            return grant(u64::from(u32::MAX));
        }
        if state.failure.is_some() {
            drop(state);
            return self.go_on(0);
        }
        if state.steps >= state.step_limit {
            let threads = state.describe();
            state.fail(Cause::NoProgress { threads });
            drop(state);
            return self.go_on(0);
        }
        state.wake_expired();
        let next = state.after_a_stretch(task);
        self.hand_over(state, task, next);
    }

    fn block(
        &self,
        task: usize,
        on: On,
        deadline: Option<Duration>,
        at: &'static Location<'static>,
    ) -> Woken {
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
                return Woken::TimedOut;
            }
        }
        state.tasks[task].status = Status::Blocked {
            on,
            deadline,
            at,
            unwinding,
        };
        match state.next_of_all() {
            Some(next) => self.hand_over(state, task, next),
            None => self.leave_behind(state, task),
        }
        self.state.lock().tasks[task].woken
    }

    /// Every thread that is left has blocked while it unwound after the run had failed.
    fn leave_behind(&self, mut state: MutexGuard<'_, State>, task: usize) {
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
        state.wake_all(On::End(task));
        if let Some(message) = panicked {
            let thread = state.tasks[task].name.clone();
            state.fail(Cause::Panic { thread, message });
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

    fn failed(&self, cause: Cause) -> Failure {
        self.state.lock().failure(self.seed, cause)
    }

    /// From outside: gives the first thread its turn, and waits until all have ended.
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
        let priority = self.lowest_priority + self.random.any() / 2;
        self.tasks.push(Task {
            name: name.into(),
            status: Status::Runnable,
            woken: Woken::Notified,
            priority,
            worker,
        });
        self.interrupt_soon(priority);
        self.tasks.len() - 1
    }

    /// Adds what the running thread has done since it got the turn, or since this was called.
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

    /// A thread of this priority can run: if it goes before the running one, that one has to ask.
    fn interrupt_soon(&mut self, _priority: u64) {
        if self.strategy.has_priorities() {
            STEPS.with(|steps| {
                steps.granted.set(steps.granted.get() - steps.left.get());
                steps.left.set(0);
            });
        }
    }

    fn wake(&mut self, task: usize, woken: Woken) {
        let task = &mut self.tasks[task];
        task.status = Status::Runnable;
        task.woken = woken;
        let priority = task.priority;
        self.interrupt_soon(priority);
    }

    fn waiting(&self, on: On) -> impl Iterator<Item = usize> + '_ {
        let waits = move |task: &Task| matches!(task.status, Status::Blocked { on: other, .. } if other == on);
        (0..self.tasks.len()).filter(move |&at| waits(&self.tasks[at]))
    }

    fn wake_all(&mut self, on: On) {
        for task in self.waiting(on).collect::<Vec<_>>() {
            self.wake(task, Woken::Notified);
        }
    }

    fn wake_one(&mut self, on: On) {
        let waiting: Vec<usize> = self.waiting(on).collect();
        if !waiting.is_empty() {
            let one = self.random.pick(&waiting);
            self.wake(one, Woken::Notified);
        }
    }

    fn wake_expired(&mut self) {
        for task in 0..self.tasks.len() {
            if let Status::Blocked {
                deadline: Some(deadline),
                ..
            } = self.tasks[task].status
                && deadline <= self.now
            {
                self.wake(task, Woken::TimedOut);
            }
        }
    }

    fn wake_for_no_reason(&mut self) {
        if self.spurious && self.random.one_in(SPURIOUS) {
            let waiting: Vec<usize> = (0..self.tasks.len())
                .filter(|&at| {
                    let status = self.tasks[at].status;
                    matches!(
                        status,
                        Status::Blocked {
                            on: On::Condvar(_),
                            ..
                        }
                    )
                })
                .collect();
            if !waiting.is_empty() {
                let one = self.random.pick(&waiting);
                self.wake(one, Woken::Notified);
            }
        }
    }

    fn runnable(&self) -> Vec<usize> {
        let runs = |&at: &usize| self.tasks[at].status == Status::Runnable;
        (0..self.tasks.len()).filter(runs).collect()
    }

    /// Who goes on after the running thread has used up its stretch.
    fn after_a_stretch(&mut self, task: usize) -> usize {
        let in_one_go = self.steps - self.switched_at;
        let makes_way = self.strategy.makes_way(self.steps, in_one_go);
        let forced = in_one_go >= crate::strategy::FAIR;
        if self.preemptions_left == 0 && !forced {
            return task;
        }
        let others: Vec<usize> = self
            .runnable()
            .into_iter()
            .filter(|&at| at != task)
            .collect();
        if others.is_empty() {
            return task;
        }
        let next = if self.strategy.has_priorities() {
            if makes_way {
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

    /// Who goes on when the running thread cannot; nothing if that is over.
    fn next_of_all(&mut self) -> Option<usize> {
        if self.failure.is_none() {
            self.wake_for_no_reason();
            self.wake_expired();
            let mut runnable = self.runnable();
            while runnable.is_empty() {
                let deadlines = self.tasks.iter().filter_map(|task| match task.status {
                    Status::Blocked { deadline, .. } => deadline,
                    _ => None,
                });
                let Some(next) = deadlines.min() else {
                    let threads = self.describe();
                    self.fail(Cause::Deadlock { threads });
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

    /// After a failure one thread after the other unwinds.
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

    fn fail(&mut self, cause: Cause) {
        let step = self.steps;
        self.failure.get_or_insert((cause, step));
    }

    fn failure(&self, seed: u64, cause: Cause) -> Failure {
        Failure {
            seed,
            cause,
            step: self.steps,
            preemptions: self.preemptions,
            time: self.now,
            schedule_hash: self.hash,
        }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            let name = &task.name;
            let _ = match task.status {
                Status::Runnable => writeln!(text, "  '{name}' runs"),
                Status::Blocked {
                    on, deadline, at, ..
                } => {
                    let what = match on {
                        On::Lock(_) => "a lock".to_string(),
                        On::Condvar(_) => "a condition".to_string(),
                        On::End(other) => format!("the end of '{}'", self.tasks[other].name),
                        On::Time => "its time".to_string(),
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
        // Making the trace readable takes long, and most panics are expected.
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
    text.map_or("it says nothing".into(), |text| text.to_string())
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
            let what = info.payload_as_str().unwrap_or("a payload that is no text");
            let at = info.location().map(|at| format!(", at {at}"));
            let message = format!("{what}{}", at.unwrap_or_default());
            let last = (message, Backtrace::capture());
            let _ = LAST_PANIC.try_with(|it| it.replace(Some(last)));
        }));
    });
}
