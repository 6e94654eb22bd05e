//! Faults: what goes wrong, and when.

use std::io;

/// An operation of the disk, or several kinds of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskOperation {
    /// A read of a page, or of bytes.
    Read,
    /// A write of a page, or of bytes.
    Write,
    /// A sync of one file.
    Sync,
    /// A change of a file's length without a write.
    Resize,
    /// Any change: [`Write`](Self::Write), [`Sync`](Self::Sync) or [`Resize`](Self::Resize).
    Change,
    /// Every operation.
    Any,
}

impl DiskOperation {
    fn covers(self, operation: DiskOperation) -> bool {
        match self {
            DiskOperation::Any => true,
            DiskOperation::Change => operation != DiskOperation::Read,
            one => one == operation,
        }
    }
}

/// Something that goes wrong on a [`FaultyDisk`](super::FaultyDisk): what, and when.
///
/// By default it happens once, at the next operation of its kind, in any file. The conditions combine:
/// `.in_file("data").nth(3)` is the third operation of its kind in `data`.
#[derive(Clone, Debug)]
pub struct Fault {
    on: DiskOperation,
    effect: FaultEffect,
    file: Option<String>,
    page: Option<u64>,
    /// The number of operations of its kind that succeed before it happens.
    skip: u64,
    forever: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultEffect {
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
    fn new(on: DiskOperation, effect: FaultEffect) -> Self {
        Fault { on, effect, file: None, page: None, skip: 0, forever: false }
    }

    /// The power fails during the operation, as by [`crash`](super::FaultyDisk::crash) with this seed: what the
    /// operation writes counts as not synced. If it belongs to a batch, the whole batch is under way.
    pub fn crash(during: DiskOperation, seed: u64) -> Self {
        Fault::new(during, FaultEffect::Crash { seed })
    }

    /// The operation does nothing and fails with this error number of the system, such as
    /// [`EIO`](super::EIO). A sync that fails so has dropped nothing: the next one can succeed.
    pub fn failing(on: DiskOperation, errno: i32) -> Self {
        Fault::new(on, FaultEffect::Fail(errno))
    }

    /// A write fails with this error number, after some of its sectors were written.
    pub fn torn_write(errno: i32) -> Self {
        Fault::new(DiskOperation::Write, FaultEffect::Part(errno))
    }

    /// A write is acknowledged and never happens.
    pub fn lost_write() -> Self {
        Fault::new(DiskOperation::Write, FaultEffect::Lost)
    }

    /// A write is acknowledged and goes to another page of the same file (of a byte file: to the
    /// offset `to`).
    pub fn misplaced_write(to: u64) -> Self {
        Fault::new(DiskOperation::Write, FaultEffect::Misplaced { to })
    }

    /// A read succeeds, with one bit that is not what was written; the next read is right again.
    pub fn flipped_read() -> Self {
        Fault::new(DiskOperation::Read, FaultEffect::Flip)
    }

    /// A sync fails with this error number and drops part of what it had to sync. Syncs after it or at the same time
    /// succeed, and reads return the dropped bytes until the power fails. Linux behaves so when it cannot write a
    /// page of its cache (Rebello et al., Can applications recover from fsync failures?, ATC 2020).
    pub fn sync_that_drops(errno: i32) -> Self {
        Fault::new(DiskOperation::Sync, FaultEffect::SyncDrops(errno))
    }

    /// A sync succeeds and has synced nothing. The next correct sync also syncs those writes.
    pub fn lying_sync() -> Self {
        Fault::new(DiskOperation::Sync, FaultEffect::SyncLies)
    }

    /// The fault concerns this file only, by the name that it has on the disk.
    pub fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    /// The fault concerns this page only. Resizes, syncs and operations on byte files have no page.
    pub fn at_page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// At the n-th operation of its kind after it is injected, counted from 1. 0 means the same as 1.
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// The fault also concerns every later operation of its kind.
    pub fn forever(mut self) -> Self {
        self.forever = true;
        self
    }

    fn concerns(&self, operation: DiskOperation, file: &str, page: Option<u64>) -> bool {
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

    /// The effect on this operation. If several faults apply, the one that was injected first.
    pub(super) fn next(&mut self, operation: DiskOperation, file: &str, page: Option<u64>) -> Option<FaultEffect> {
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

/// The error of a call that was under way when the power failed, or that came after that.
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
