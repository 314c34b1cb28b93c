#!/bin/sh
# Writes requirements.lock next to every requirements.txt of the tests: all packages they bring, with the hashes of their files. All lists are
# resolved together first, for they are installed into one environment.
#
#   tests/tools/lock.sh UV      UV: the program `uv`
set -eu

uv=${1:?"usage: tests/tools/lock.sh UV"}
cd "$(dirname "$0")/../.."
all=$(mktemp)
trap 'rm -f "$all"' EXIT
lock() {
    "$uv" pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-annotate --no-emit-index-url --no-header "$@"
}
lock python/tests/requirements.txt tests/*/requirements.txt -o "$all"
for list in python/tests/requirements.txt tests/*/requirements.txt; do
    lock -c "$all" "$list" -o "${list%.txt}.lock"
done
