//! Which mutant of a build is on: one build has all of them, each behind `mutants::on(number)`.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const RECORD: u32 = u32::MAX - 1;

static MODE: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];

/// Whether `MUTANT` is this number. With `MUTANT=record` none is on, and `MUTANTS_REACHED` names the file that gets a line with
/// the number of each that a program reaches.
#[inline]
pub fn on(number: u32) -> bool {
    let mode = MODE.load(Relaxed);
    mode == number || mode >= RECORD && seldom(number, mode)
}

#[cold]
fn seldom(number: u32, mut mode: u32) -> bool {
    if mode == UNREAD {
        mode = match std::env::var("MUTANT").as_deref() {
            Ok("record") => RECORD,
            Ok(text) => text.parse().unwrap_or(RECORD - 1),
            Err(_) => RECORD - 1,
        };
        MODE.store(mode, Relaxed);
    }
    if mode == RECORD && !REACHED[number as usize].swap(true, Relaxed) {
        if let Some(path) = std::env::var_os("MUTANTS_REACHED") {
            if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
                let _ = file.write_all(format!("{number}\n").as_bytes());
            }
        }
    }
    mode == number
}
