#!/bin/sh
# Coverage-guided fuzzing with libFuzzer on the stable toolchain; needs a C++ compiler.
#
#   fuzz/run.sh TARGET [RUNS [OPTION...]]     TARGET: see the list of lengths below
#
# RUNS is 1000000 unless given, or a file to try again; options go to libFuzzer (-jobs=2, -seed=7).
# New inputs are kept in fuzz/found/TARGET, those that fail in fuzz/artifacts/TARGET; git ignores both.
# `fuzz/run.sh TARGET merge` puts the fewest of them that reach all code reached into fuzz/corpus/TARGET.
set -eu

target=${1:?"usage: fuzz/run.sh TARGET [RUNS [OPTION...]]"}
runs=${2:-1000000}
[ $# -ge 2 ] && shift 2 || shift

here=$(cd "$(dirname "$0")" && pwd)
[ -f "$runs" ] && runs=$(realpath "$runs")
cd "$here"
case $target in
    csv | basis | options) longest=512 ;;
    secagg) longest=256 ;;
    broadcast) longest=512 ;;
    agreement) longest=2048 ;;
    summary | update) longest=1024 ;;
    idx) longest=1024 ;;
    npy) longest=2048 ;;
    model | values) longest=256 ;;
    columnar) longest=8192 ;;
    *) echo "fuzz/run.sh: there is no target '$target'" >&2 && exit 2 ;;
esac

# What `cargo fuzz` passes, except for the sanitizers, which are what needs a nightly compiler. A target triple is
# named so that the flags stay away from build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing" \
    CARGO_TARGET_DIR="$here/target" cargo build --release --quiet --locked --target "$host" --bin "$target"
program="$here/target/$host/release/$target"

mkdir -p "artifacts/$target" "found/$target" "corpus/$target"
if [ -f "$runs" ]; then
    exec "$program" "$runs"
elif [ "$runs" = merge ]; then
    exec "$program" -set_cover_merge=1 -use_counters=0 -max_len="$longest" -timeout=10 \
        "corpus/$target" "found/$target"
fi
exec "$program" -runs="$runs" -max_len="$longest" -rss_limit_mb=1024 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="artifacts/$target/" "$@" "found/$target" "corpus/$target"
