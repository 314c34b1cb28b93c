#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pmfcl_fuzz::output::run(bytes));
