//! Observers behind dynamic dispatch, so that engines are compiled for two of them and not for each:
//! one that hears nothing and costs nothing, and this one.

use ebbpool_policy::Costs;

use crate::observer::{Observer, Sample};

/// [`Observer`], callable without knowing which.
pub(crate) trait Hears: Send {
    fn counting(&mut self);
    fn costs(&mut self, reference: u64) -> Option<Costs>;
    fn stopped(&self) -> bool;
    fn pages(&self) -> u64;
    fn erases_of(&self, page: u64) -> u32;
    fn note_moves(&mut self);
    fn take_moved(&mut self, moved: &mut Vec<u64>);
    fn read(&mut self, page: u64);
    fn write(&mut self, page: u64);
    fn evict(&mut self, page: u64);
    fn sample(&mut self, sample: &Sample);
}

/// Whoever listens.
pub(crate) struct Listener<'a>(pub(crate) &'a mut dyn Hears);

macro_rules! forward {
    ($($name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $answer:ty)?;)*
     ---
     $($asked:ident(&self $(, $by:ident: $kind:ty)*) -> $told:ty;)*) => {
        impl<O: Observer> Hears for O {
            $(fn $name(&mut self $(, $argument: $type)*) $(-> $answer)? {
                Observer::$name(self $(, $argument)*)
            })*
            $(fn $asked(&self $(, $by: $kind)*) -> $told {
                Observer::$asked(self $(, $by)*)
            })*
        }

        impl Observer for Listener<'_> {
            const LISTENS: bool = true;
            $(fn $name(&mut self $(, $argument: $type)*) $(-> $answer)? {
                self.0.$name($($argument),*)
            })*
            $(fn $asked(&self $(, $by: $kind)*) -> $told {
                self.0.$asked($($by),*)
            })*
        }
    };
}

forward! {
    counting(&mut self);
    costs(&mut self, reference: u64) -> Option<Costs>;
    note_moves(&mut self);
    take_moved(&mut self, moved: &mut Vec<u64>);
    read(&mut self, page: u64);
    write(&mut self, page: u64);
    evict(&mut self, page: u64);
    sample(&mut self, sample: &Sample);
    ---
    stopped(&self) -> bool;
    pages(&self) -> u64;
    erases_of(&self, page: u64) -> u32;
}
