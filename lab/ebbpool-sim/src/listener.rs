//! Observers behind dynamic dispatch. Engines are compiled for each policy with [`crate::NoObserver`], which costs nothing, and
//! once with an observer, whose work costs more than to call its policy by dynamic dispatch, too.

use ebbpool_policy::{Costs, Dispatched, DynPolicy};

use crate::engine::{Engine, RunParameters, RunningEngine};
use crate::observer::{Observer, Sample};

/// [`Observer`] behind dynamic dispatch.
pub(crate) trait DynObserver: Send {
    fn counting(&mut self);
    fn dirty_before(&mut self, page: u64);
    fn ending(&mut self);
    fn costs(&mut self, reference: u64) -> Option<Costs>;
    fn stopped(&self) -> bool;
    fn pages(&self) -> u64;
    fn counts_erases(&self) -> bool;
    fn erases_of(&self, page: u64) -> u32;
    fn note_moves(&mut self);
    fn take_moved(&mut self, moved: &mut Vec<u64>);
    fn read(&mut self, page: u64);
    fn write(&mut self, page: u64);
    fn trim(&mut self, first: u64, last: u64);
    fn evict(&mut self, page: u64);
    fn sample(&mut self, sample: &Sample);
}

/// Forwards every call to an observer behind dynamic dispatch.
struct Listener<'a>(&'a mut dyn DynObserver);

/// The run of a policy with an observer.
pub(crate) fn observed<'o>(
    policy: Box<dyn DynPolicy + Send>,
    setup: RunParameters,
    observer: &'o mut dyn DynObserver,
) -> Box<dyn RunningEngine + 'o> {
    Box::new(Engine::new(Dispatched::new(policy), Listener(observer), setup))
}

macro_rules! forward {
    ($($name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $answer:ty)?;)*
     ---
     $($query:ident(&self $(, $by:ident: $kind:ty)*) -> $result:ty;)*) => {
        impl<O: Observer> DynObserver for O {
            $(fn $name(&mut self $(, $argument: $type)*) $(-> $answer)? {
                Observer::$name(self $(, $argument)*)
            })*
            $(fn $query(&self $(, $by: $kind)*) -> $result {
                Observer::$query(self $(, $by)*)
            })*
        }

        impl Observer for Listener<'_> {
            const LISTENS: bool = true;
            $(fn $name(&mut self $(, $argument: $type)*) $(-> $answer)? {
                self.0.$name($($argument),*)
            })*
            $(fn $query(&self $(, $by: $kind)*) -> $result {
                self.0.$query($($by),*)
            })*
        }
    };
}

forward! {
    counting(&mut self);
    dirty_before(&mut self, page: u64);
    ending(&mut self);
    costs(&mut self, reference: u64) -> Option<Costs>;
    note_moves(&mut self);
    take_moved(&mut self, moved: &mut Vec<u64>);
    read(&mut self, page: u64);
    write(&mut self, page: u64);
    trim(&mut self, first: u64, last: u64);
    evict(&mut self, page: u64);
    sample(&mut self, sample: &Sample);
    ---
    stopped(&self) -> bool;
    pages(&self) -> u64;
    counts_erases(&self) -> bool;
    erases_of(&self, page: u64) -> u32;
}
