//! Turns panics of the Parquet decoder into errors.
//!
//! The `parquet` crate asserts, slices and unwraps on values taken from the file
//! (negative column offsets, level lengths beyond the page, a dictionary page
//! that is missing, …), so a damaged file can make it panic; `tests/traces/damage.rs`
//! reaches several such places. There is no complete list to check beforehand,
//! so every call into it goes through this one guard.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call`; a panic inside becomes `Err` with its message.
///
/// After an `Err` the caller must not use the data that `call` was changing, which may
/// be inconsistent.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // The default hook would print a second report of many lines on standard error,
    // where a damaged file should cause one line. Hooks are process-wide, so this one
    // calls the previous hook for every panic outside of a guarded call.
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                previous(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("the decoder gave up").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guarded(|| 7), Ok(7));
        assert_eq!(guarded(|| panic!("at {}", 3)), Err::<(), _>("at 3".into()));
        assert!(!GUARDED.get());
    }
}
