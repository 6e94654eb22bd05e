//! A VFS over another one whose calls are points at which a statement can be held back, so that others run in between.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::sync::mpsc::Receiver;

use ebbpool_sqlite::ffi;

use crate::shim::{self, Below, FileCall, Layer, Opening, VfsBelow, VfsCall};

/// What a statement is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Any call of SQLite's into its VFS.
    Call,
    Read,
    Write,
    Truncate,
    Sync,
    Lock,
    Unlock,
    ShmLock,
    /// The lock of a WAL's writer was released.
    AfterWriter,
    /// SQLite says that it has committed.
    PhaseTwo,
    Delete,
    /// A sync of the simulated disk, which the library makes.
    DiskSync,
}

/// The n-th event of a kind in a statement, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(pub Event, pub u32);

/// Where the statement of this thread stops.
pub struct Plan {
    pub point: Point,
    /// Hears of it when the point is reached.
    pub reached: Box<dyn Fn() + Send>,
    /// The statement goes on when something arrives, or when no thread is left that could send it.
    pub resume: Receiver<()>,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Sets where the next statement of this thread stops; `None` lets it run to its end.
pub fn set(plan: Option<Plan>) {
    PLAN.set(plan);
}

/// An event is about to happen in this thread.
pub fn reached(event: Event) {
    let plan = PLAN.with_borrow_mut(|plan| {
        let Plan { point, .. } = plan.as_mut()?;
        let is_call = event != Event::DiskSync && event != Event::AfterWriter;
        if point.0 != event && !(point.0 == Event::Call && is_call) {
            return None;
        }
        point.1 = point.1.saturating_sub(1);
        if point.1 > 0 { None } else { plan.take() }
    });
    if let Some(plan) = plan {
        (plan.reached)();
        let _ = plan.resume.recv();
    }
}

struct Points;

/// Registers a VFS with a name over the one called `below`.
pub fn register(name: &str, below: &CStr) -> &'static CStr {
    let name = shim::leaked(name);
    shim::register(name, Some(below), &Points);
    name
}

impl Layer for Points {
    type Open = ();

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<()>) {
        reached(Event::Call);
        let (code, is_open) = opening.pass();
        (code, is_open.then_some(()))
    }

    fn call(&self, (): &(), call: FileCall<'_>, below: &Below) -> c_int {
        let gives_writer_back = matches!(call, FileCall::ShmLock { offset: 0, flags, .. } if flags & ffi::SHM_UNLOCK != 0);
        match call {
            FileCall::Read { .. } => reached(Event::Read),
            FileCall::Write { .. } => reached(Event::Write),
            FileCall::Truncate { .. } => reached(Event::Truncate),
            FileCall::Sync { .. } => reached(Event::Sync),
            FileCall::Lock { .. } => reached(Event::Lock),
            FileCall::Unlock { .. } => reached(Event::Unlock),
            FileCall::ShmLock { .. } => reached(Event::ShmLock),
            FileCall::FileControl { operation: ffi::FCNTL_COMMIT_PHASETWO, .. } => reached(Event::PhaseTwo),
            FileCall::SectorSize | FileCall::DeviceCharacteristics | FileCall::ShmBarrier => {}
            FileCall::Close
            | FileCall::FileSize { .. }
            | FileCall::CheckReservedLock { .. }
            | FileCall::FileControl { .. }
            | FileCall::ShmMap { .. }
            | FileCall::ShmUnmap { .. } => reached(Event::Call),
        }
        let code = below.pass(call);
        if gives_writer_back {
            reached(Event::AfterWriter);
        }
        code
    }

    fn vfs_call(&self, call: VfsCall<'_>, below: &VfsBelow) -> c_int {
        if matches!(call, VfsCall::Delete { .. }) {
            reached(Event::Delete);
        }
        below.pass(call)
    }
}
