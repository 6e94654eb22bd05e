//! Children of `fork()`: they have none of their parent's databases, and none of its locks.
//!
//! A child has only the thread that has called `fork`, with the memory of all. So the locks that it needs are taken before and
//! given back after: then no other thread is in the middle of what they protect. The pool's locks have lists of waiting
//! threads, which no child may inherit: threads pass a gate to use the pool.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::instance::{Databases, Instance, Timer};
use crate::owner::{self, FileIdentity, Unused};
use crate::sync::lock;

static GATE: RwLock<()> = RwLock::new(());
static INSTANCES: Mutex<Vec<&'static Instance>> = Mutex::new(Vec::new());
/// The descriptors of databases that this process locks with. A child closes its copies: with them the locks would outlive the
/// parent.
static DESCRIPTORS: Mutex<Vec<(i32, FileIdentity)>> = Mutex::new(Vec::new());

/// What the thread that calls `fork` has locked meanwhile.
struct Held {
    _gate: RwLockWriteGuard<'static, ()>,
    _instances: MutexGuard<'static, Vec<&'static Instance>>,
    unused: MutexGuard<'static, Unused>,
    descriptors: MutexGuard<'static, Vec<(i32, FileIdentity)>>,
    tables: Vec<(MutexGuard<'static, Databases>, MutexGuard<'static, Timer>)>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Keeps `fork` waiting until it is dropped. A thread that has it waits for no other one that needs it.
pub(crate) fn gate() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a descriptor that a child is to close, and its file. The caller has the gate.
pub(crate) fn note_descriptor(descriptor: i32, file: FileIdentity) {
    lock(&DESCRIPTORS).push((descriptor, file));
}

/// Forgets a descriptor that is closed next.
pub(crate) fn forget_descriptor(descriptor: i32) {
    lock(&DESCRIPTORS).retain(|(known, _)| *known != descriptor);
}

/// Has the children of this process begin without the databases of an instance.
pub(crate) fn watch(instance: &'static Instance) {
    static ONCE: Once = Once::new();
    lock(&INSTANCES).push(instance);
    ONCE.call_once(|| {
        // SAFETY: the functions stay, because the library is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

unsafe extern "C" fn before() {
    let gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let instances = lock(&INSTANCES);
    let tables = instances.iter().map(|instance| (instance.lock_databases(), instance.lock_timer())).collect();
    let held =
        Held { _gate: gate, unused: owner::lock_unused(), descriptors: lock(&DESCRIPTORS), tables, _instances: instances };
    let _ = HELD.try_with(|slot| slot.replace(Some(held)));
}

unsafe extern "C" fn in_parent() {
    let _ = HELD.try_with(RefCell::take);
}

unsafe extern "C" fn in_child() {
    let _ = HELD.try_with(|slot| {
        let Some(mut held) = slot.take() else {
            return;
        };
        // Their descriptors are among those that are closed next.
        std::mem::forget(std::mem::take(&mut *held.unused));
        for (descriptor, file) in held.descriptors.drain(..) {
            // A program that has closed it may have a file of its own there.
            if owner::identity_of_descriptor(descriptor) == Some(file) {
                // SAFETY: the descriptor is one of this library's, and the parent's lock stays.
                unsafe { libc::close(descriptor) };
            }
        }
        for (databases, timer) in &mut held.tables {
            databases.forget();
            timer.forget();
        }
    });
}
