//! Atomics, each operation of which is a step.

pub use std::sync::atomic::Ordering;

use std::sync::atomic::Ordering::SeqCst;

use crate::world::{self, step};

/// One weak exchange in this many fails spuriously.
const WEAK: u64 = 32;

fn fails_spuriously() -> bool {
    !std::thread::panicking() && world::blocking().is_some_and(|thread| thread.one_in(WEAK))
}

/// A memory fence, which is a step; every order is sequentially consistent.
pub fn fence(_: Ordering) {
    step();
    std::sync::atomic::fence(SeqCst);
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!("Simulates `std::sync::atomic::", stringify!($name), "`; every order is sequentially consistent.")]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// An atomic with this value.
            pub const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            /// Its value.
            #[inline]
            pub fn load(&self, _: Ordering) -> $value {
                step();
                self.0.load(SeqCst)
            }

            /// Sets the value.
            #[inline]
            pub fn store(&self, value: $value, _: Ordering) {
                step();
                self.0.store(value, SeqCst);
            }

            /// Sets the value, and returns the one before.
            #[inline]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.swap(value, SeqCst)
            }

            /// Sets the value if it is `current`; returns the one before.
            ///
            /// # Errors
            ///
            /// The value, if it is not `current`.
            #[inline]
            pub fn compare_exchange(&self, current: $value, new: $value, _: Ordering, _: Ordering) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, SeqCst, SeqCst)
            }

            /// Sets the value if it is `current`, and may fail spuriously; returns the one before.
            ///
            /// # Errors
            ///
            /// The value.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                step();
                if fails_spuriously() {
                    return Err(self.0.load(SeqCst));
                }
                self.0.compare_exchange(current, new, SeqCst, SeqCst)
            }

            /// Replaces the value by the result of `change`, unless that is `None`; returns the one before.
            ///
            /// # Errors
            ///
            /// The value, if `change` returned `None`.
            pub fn fetch_update(
                &self,
                _: Ordering,
                _: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                step();
                self.0.fetch_update(SeqCst, SeqCst, change)
            }

            /// Sets the bits of another value; returns the value before.
            #[inline]
            pub fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.fetch_or(value, SeqCst)
            }

            /// Clears the bits that another value lacks; returns the value before.
            #[inline]
            pub fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.fetch_and(value, SeqCst)
            }

            /// The value, which no other thread can access at the moment.
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
                /// Adds, wrapping around; returns the value before.
                #[inline]
                pub fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_add(value, SeqCst)
                }

                /// Subtracts, wrapping around; returns the value before.
                #[inline]
                pub fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_sub(value, SeqCst)
                }

                /// Sets the larger of the two values; returns the value before.
                #[inline]
                pub fn fetch_max(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_max(value, SeqCst)
                }

                /// Sets the smaller of the two values; returns the value before.
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
