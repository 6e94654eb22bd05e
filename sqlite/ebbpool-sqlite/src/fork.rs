//! Children of `fork()`: they have none of their parent's databases, and none of its locks.
//!
//! A child has only the thread that has called `fork`, with the memory of all. So the locks that it needs are taken before and
//! given back after: then no other thread is in the middle of what they protect. The pool's locks have lists of waiting
//! threads, which no child may inherit: threads pass a gate to use the pool.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, RwLockWriteGuard};

use crate::disk::{self, BaseFile, FileIdentity};
use crate::instance::{Databases, Instance, Timer};
use crate::owner::HeldDescriptors;
use crate::sync::{self, lock};

static INSTANCES: Mutex<Vec<&'static Instance>> = Mutex::new(Vec::new());
/// What the thread that calls `fork` has locked meanwhile.
struct Held {
    _gate: RwLockWriteGuard<'static, ()>,
    _instances: MutexGuard<'static, Vec<&'static Instance>>,
    parked: MutexGuard<'static, Vec<(FileIdentity, BaseFile)>>,
    descriptors: HeldDescriptors,
    tables: Vec<(MutexGuard<'static, Databases>, MutexGuard<'static, Timer>)>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
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
    let gate = sync::close_gate();
    let instances = lock(&INSTANCES);
    let tables = instances.iter().map(|instance| (instance.lock_databases(), instance.lock_timer())).collect();
    let (parked, descriptors) = (disk::lock_parked(), HeldDescriptors::lock());
    let held = Held { _gate: gate, parked, descriptors, tables, _instances: instances };
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
        // Their descriptors stay open, as those of the parent's other files do.
        std::mem::forget(std::mem::take(&mut *held.parked));
        held.descriptors.close_in_child();
        for (databases, timer) in &mut held.tables {
            databases.forget();
            timer.forget();
        }
    });
}
