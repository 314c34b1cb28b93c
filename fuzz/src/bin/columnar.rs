#![no_main]

// The decoders of others may panic, and the reader makes errors of that: only what gets out is a failure. So
// the hook of libFuzzer, which ends the process at once, is replaced by one that takes notes.
libfuzzer_sys::fuzz_target!(
    init: {
        let _ = std::panic::take_hook();
        std::panic::set_hook(Box::new(|info| *NOTE.lock().unwrap() = info.to_string()));
    },
    |bytes: &[u8]| {
        if std::panic::catch_unwind(|| pmfcl_fuzz::columnar::run(bytes)).is_err() {
            eprintln!("{}", NOTE.lock().unwrap());
            std::process::abort();
        }
    }
);

static NOTE: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());
