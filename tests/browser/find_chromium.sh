#!/bin/sh
# Prints the path of a Chromium. Looks in PATH, then installs Debian's where that is possible.
find_one() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return 0
    done
    return 1
}
find_one && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1
    find_one && exit 0
fi
echo "no Chromium found: install chromium or google-chrome and put it into PATH" >&2
exit 1
