//! What is to go wrong, and when.

use std::io;

/// An operation of the disk, or several kinds of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A read of a page, or of bytes.
    Read,
    /// A write of a page, or of bytes.
    Write,
    /// A sync of one file.
    Sync,
    /// A change of a file's length that writes nothing.
    Resize,
    /// Whatever changes something: [`Write`](Self::Write), [`Sync`](Self::Sync) or
    /// [`Resize`](Self::Resize).
    Change,
    /// Every operation.
    Any,
}

impl Operation {
    fn covers(self, operation: Operation) -> bool {
        match self {
            Operation::Any => true,
            Operation::Change => operation != Operation::Read,
            one => one == operation,
        }
    }
}

/// Something that goes wrong on a [`FaultyDisk`](super::FaultyDisk): what, and when.
///
/// Unless said otherwise it happens once, at the next operation of its kind, in whatever file. The
/// conditions count together: `.of("data").nth(3)` is the third operation of its kind in `data`.
#[derive(Clone, Debug)]
pub struct Fault {
    on: Operation,
    effect: Effect,
    file: Option<String>,
    page: Option<u64>,
    /// Operations of the kind that pass before it happens.
    skip: u64,
    forever: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Fail(i32),
    Crash { seed: u64 },
    Part(i32),
    Lost,
    Misplaced { to: u64 },
    Flip,
    SyncDrops(i32),
    SyncLies,
}

impl Fault {
    fn new(on: Operation, effect: Effect) -> Self {
        Fault {
            on,
            effect,
            file: None,
            page: None,
            skip: 0,
            forever: false,
        }
    }

    /// The power fails during the operation, as by [`crash`](super::FaultyDisk::crash) with this
    /// seed: what it was to write counts as not synced. With it a whole batch is under way.
    pub fn crash(during: Operation, seed: u64) -> Self {
        Fault::new(during, Effect::Crash { seed })
    }

    /// The operation does nothing and fails with this error number of the system, such as
    /// [`EIO`](super::EIO). A sync that fails so has dropped nothing: the next one can succeed.
    pub fn failing(on: Operation, errno: i32) -> Self {
        Fault::new(on, Effect::Fail(errno))
    }

    /// A write fails with this error number, after some of its sectors were written.
    pub fn torn_write(errno: i32) -> Self {
        Fault::new(Operation::Write, Effect::Part(errno))
    }

    /// A write is acknowledged and never happens.
    pub fn lost_write() -> Self {
        Fault::new(Operation::Write, Effect::Lost)
    }

    /// A write is acknowledged and goes to another page of the same file (of a byte file: to the
    /// offset `to`).
    pub fn misplaced_write(to: u64) -> Self {
        Fault::new(Operation::Write, Effect::Misplaced { to })
    }

    /// A read succeeds, with one bit that is not what was written; the next read is right again.
    pub fn flipped_read() -> Self {
        Fault::new(Operation::Read, Effect::Flip)
    }

    /// A sync fails with this error number, part of what was to be synced is dropped, and syncs
    /// after it or at the same time succeed; reads show what was dropped as long as the power lasts. So Linux does when
    /// it cannot write a page of its cache (Rebello et al., Can applications recover from fsync
    /// failures?, ATC 2020).
    pub fn sync_that_drops(errno: i32) -> Self {
        Fault::new(Operation::Sync, Effect::SyncDrops(errno))
    }

    /// A sync succeeds and has synced nothing. The next honest one catches up.
    pub fn lying_sync() -> Self {
        Fault::new(Operation::Sync, Effect::SyncLies)
    }

    /// Only in this file.
    pub fn of(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Only at this page. Resizes and syncs, and what is done to byte files, have none.
    pub fn at_page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// At the n-th operation of its kind, counted from 1, from when it is injected. 0 is as 1.
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// At every later operation of its kind too.
    pub fn forever(mut self) -> Self {
        self.forever = true;
        self
    }

    fn concerns(&self, operation: Operation, file: &str, page: Option<u64>) -> bool {
        self.on.covers(operation)
            && self.file.as_deref().is_none_or(|only| only == file)
            && self.page.is_none_or(|only| page == Some(only))
    }
}

/// The faults that are still to happen.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule(Vec<Fault>);

impl Schedule {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What happens to this operation; of several faults the one that was injected first.
    pub(super) fn next(
        &mut self,
        operation: Operation,
        file: &str,
        page: Option<u64>,
    ) -> Option<Effect> {
        let mut effect = None;
        self.0.retain_mut(|fault| {
            if effect.is_some() && fault.skip == 0 || !fault.concerns(operation, file, page) {
                return true;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                return true;
            }
            effect = Some(fault.effect);
            fault.forever
        });
        effect
    }
}

/// Why a call failed that was under way when the power failed, or came after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the power of the simulated disk has failed; `restart` it, and open its files anew")]
pub struct PowerOff;

impl PowerOff {
    /// True if a call failed for this reason.
    pub fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<PowerOff>())
    }
}

impl From<PowerOff> for io::Error {
    fn from(off: PowerOff) -> io::Error {
        io::Error::other(off)
    }
}
