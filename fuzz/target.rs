//! The program of each fuzz target: libFuzzer calls the target whose name the program has.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ebbpool_fuzz_targets::check(env!("CARGO_BIN_NAME"), input));
