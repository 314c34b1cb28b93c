#!/bin/sh
# Coverage-guided fuzzing with libFuzzer on the stable toolchain; needs a C++ compiler.
#
#   fuzz/run.sh TARGET [RUNS [OPTION...]]     TARGET: see the list below
#   fuzz/run.sh all [PERCENT]                 every target, and the sum of executions: forty million, or a percentage of that
#   fuzz/run.sh build                         only builds all targets
#
# With the address sanitizer, debug assertions and overflow checks; SANITIZER=none is without the first.
# RUNS is what the list says unless given, or a file to try again; options go to libFuzzer (-jobs=2, -seed=7).
# New inputs are kept in fuzz/found/TARGET, those that fail in fuzz/artifacts/TARGET; git ignores both.
# `fuzz/run.sh TARGET merge` puts the fewest of them that reach all code reached into fuzz/corpus/TARGET.
set -eu

target=${1:?"usage: fuzz/run.sh TARGET [RUNS [OPTION...]]"}
here=$(cd "$(dirname "$0")" && pwd)

# The longest input of a target, and how often it is run: those that are quick the most, and forty million in all, in about an hour
# and a half of one processor.
list="
summary   1024 12000000
options    512 15000000
broadcast  512 4000000
agreement 2048 2000000
npy       2048 2000000
idx       1024 1500000
columnar  8192 1000000
update    1024 1000000
basis      512 800000
values     256 300000
secagg     256 200000
model      256 130000
csv        512 60000
output     256 10000
"
if [ "$target" = all ]; then
    percent=${2:-100}
    sum=0
    "$0" build
    export BUILT=1
    for one in $(echo "$list" | awk '{ print $1 }'); do
        runs=$(echo "$list" | awk -v one="$one" -v percent="$percent" '$1 == one { print int($3 * percent / 100) }')
        log=$(mktemp)
        "$0" "$one" "$runs" >"$log" 2>&1 || { tail -40 "$log" >&2; exit 1; }
        done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
        rm "$log"
        sum=$((sum + done))
        echo "$one: $done executions, at most $memory MB, none failed"
    done
    echo "all targets: $sum executions"
    exit
fi
longest=$(echo "$list build 0 0" | awk -v one="$target" '$1 == one { print $2 }')
[ -n "$longest" ] || { echo "fuzz/run.sh: there is no target '$target'" >&2 && exit 2; }
runs=${2:-$(echo "$list" | awk -v one="$target" '$1 == one { print $3 }')}
[ $# -ge 2 ] && shift 2 || shift
[ -f "$runs" ] && runs=$(realpath "$runs")
cd "$here"

# What `cargo fuzz` does, on the stable toolchain (rustc.sh). A target triple is named so that flags stay away from build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
export SANITIZER="${SANITIZER:-address}"
export CARGO_TARGET_DIR="$here/target/$SANITIZER"
build() { RUSTC_WRAPPER="$here/rustc.sh" RUSTFLAGS= cargo build --release --locked --target "$host" "$@"; }
if [ "$target" = build ]; then
    build --bins
    exit
fi
[ -n "${BUILT:-}" ] || build --quiet --bin "$target"
program="$CARGO_TARGET_DIR/$host/release/$target"

mkdir -p "artifacts/$target" "found/$target" "corpus/$target"
# Freed memory is kept back a while so that its use is noticed; 16 MB of it, so that the limit on memory stays one.
export ASAN_OPTIONS="quarantine_size_mb=16:malloc_context_size=0:detect_leaks=0:${ASAN_OPTIONS:-}"
if [ -f "$runs" ]; then
    exec "$program" "$runs"
elif [ "$runs" = merge ]; then
    exec "$program" -set_cover_merge=1 -use_counters=0 -max_len="$longest" -timeout=10 \
        "corpus/$target" "found/$target"
fi
exec "$program" -runs="$runs" -max_len="$longest" -rss_limit_mb=1024 -timeout=10 -detect_leaks=0 -print_final_stats=1 \
    -artifact_prefix="artifacts/$target/" "$@" "found/$target" "corpus/$target"
