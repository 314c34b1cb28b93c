#!/bin/sh
# What cargo calls in place of rustc (run.sh): the flags of fuzzing for what runs in a target, none for build scripts.
#
# Only what reads bytes of strangers reports its branches to the fuzzer. The rest, linear algebra above all, would take minutes more to
# compile and half of the speed, and lead it nowhere. Everything has the checks of the sanitizer, where one is asked for.
rustc=$1
shift
case " $* " in
*" --target "*) ;;
*) exec "$rustc" "$@" ;;
esac
# Cargo asking what the compiler is, and build scripts trying what it can do.
if [ -z "${CARGO_PKG_NAME:-}" ] || [ -n "${TARGET:-}" ]; then
    exec "$rustc" "$@"
fi
case $CARGO_PKG_NAME in
pmfcl* | arrow* | parquet | serde_json | flate2 | miniz_oxide)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
if [ "${SANITIZER:-none}" != none ]; then
    # The flag is not stable; the compiler and its runtime are.
    export RUSTC_BOOTSTRAP=1
    set -- "$@" "-Zsanitizer=$SANITIZER"
fi
exec "$rustc" "$@"
