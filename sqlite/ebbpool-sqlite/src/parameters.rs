//! The parameters behind the name that SQLite passes.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

/// The most parameters that are read: what has more is no URI of a database.
const MOST: usize = 1000;

/// The parameters of a database's name, in order: SQLite puts them behind it, each as a name and a value that end with a
/// zero, and an empty name behind the last one (`sqlite3_create_filename` documents this).
///
/// # Safety
///
/// `name` is what `xOpen` was passed with `SQLITE_OPEN_MAIN_DB`, of which SQLite promises this layout.
pub(crate) unsafe fn parameters_of(name: *const c_char) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut at = name;
    let mut next = || {
        // SAFETY: `at` is the begin of a text of the layout, so that it ends with a zero, and something follows each but the
        // empty name, after which no further one is asked for.
        unsafe {
            let text = CStr::from_ptr(at);
            at = at.add(text.count_bytes() + 1);
            text.to_string_lossy().into_owned()
        }
    };
    next();
    while parameters.len() < MOST {
        let key = next();
        if key.is_empty() {
            break;
        }
        parameters.push((key, next()));
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Vec<(String, String)> {
        // SAFETY: the bytes below have the layout.
        unsafe { parameters_of(bytes.as_ptr().cast()) }
    }

    #[test]
    fn parameters_are_read_up_to_the_empty_name() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(b"/a.db\0\0\0"), []);
        let bytes = b"/a.db\0window\0x\0mode\0\0vfs\0ebbpool\0\0after\0x\0\0";
        let found = [pair("window", "x"), pair("mode", ""), pair("vfs", "ebbpool")];
        assert_eq!(read(bytes), found);
        assert_eq!(read(b"/a.db\0\xff\0\xfe\0\0"), [pair("\u{fffd}", "\u{fffd}")]);
    }
}
