//! Atomics, each operation of which is a step.

pub use std::sync::atomic::Ordering;

use std::sync::atomic::Ordering::SeqCst;

use crate::world::{self, step};

/// One weak exchange in this many fails for no reason.
const WEAK: u64 = 32;

fn fails_for_no_reason() -> bool {
    !std::thread::panicking() && world::blocking().is_some_and(|thread| thread.one_in(WEAK))
}

/// As `std::sync::atomic::fence`.
pub fn fence(_: Ordering) {
    step();
    std::sync::atomic::fence(SeqCst);
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!("As `std::sync::atomic::", stringify!($name), "`; every order is sequentially consistent.")]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// With this value.
            pub const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            /// Its value.
            #[inline]
            pub fn load(&self, _: Ordering) -> $value {
                step();
                self.0.load(SeqCst)
            }

            /// Sets it.
            #[inline]
            pub fn store(&self, value: $value, _: Ordering) {
                step();
                self.0.store(value, SeqCst);
            }

            /// Sets it, and answers what it was.
            #[inline]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.swap(value, SeqCst)
            }

            /// Sets it if it is `current`; answers what it was.
            ///
            /// # Errors
            ///
            /// What it is, if that is not `current`.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, SeqCst, SeqCst)
            }

            /// As [`compare_exchange`](Self::compare_exchange), and may fail for no reason.
            ///
            /// # Errors
            ///
            /// What it is.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                step();
                if fails_for_no_reason() {
                    return Err(self.0.load(SeqCst));
                }
                self.0.compare_exchange(current, new, SeqCst, SeqCst)
            }

            /// Replaces it by what `change` makes of it, unless that is nothing; answers what it was.
            ///
            /// # Errors
            ///
            /// What it is, if nothing was made of it.
            pub fn fetch_update(
                &self,
                _: Ordering,
                _: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                step();
                self.0.fetch_update(SeqCst, SeqCst, change)
            }

            /// Adds the bits of another value; answers what it was.
            #[inline]
            pub fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.fetch_or(value, SeqCst)
            }

            /// Keeps the bits of another value; answers what it was.
            #[inline]
            pub fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.fetch_and(value, SeqCst)
            }

            /// Its value, which no other thread can have at the moment.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Its value.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                $name::new(value)
            }
        }
    };
}

macro_rules! numbers {
    ($($name:ident, $value:ty;)*) => {
        $(
            atomic!($name, $value);

            impl $name {
                /// Adds, around the end of the range; answers what it was.
                #[inline]
                pub fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_add(value, SeqCst)
                }

                /// Subtracts, around the end of the range; answers what it was.
                #[inline]
                pub fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_sub(value, SeqCst)
                }

                /// The larger one from now on; answers what it was.
                #[inline]
                pub fn fetch_max(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_max(value, SeqCst)
                }

                /// The smaller one from now on; answers what it was.
                #[inline]
                pub fn fetch_min(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_min(value, SeqCst)
                }
            }
        )*
    };
}

atomic!(AtomicBool, bool);

numbers! {
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}
