#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ebbpool_fuzz_targets::check("arrow", input));
