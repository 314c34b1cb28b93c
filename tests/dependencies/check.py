"""Whether cargo-deny has approved the dependencies as they are.

    python3 tests/dependencies/check.py            exit 0 where approved.txt names the present state
    python3 tests/dependencies/check.py --approve  write it; only `make deny` calls this, after cargo-deny has passed

What cargo-deny says of licences, bans and sources depends on the manifests, the lock file and its own settings alone: a published
version never changes. So its verdict is kept with their hash, and `make test` builds it (minutes) only where one of them has changed.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPROVED = Path(__file__).with_name("approved.txt")


def state() -> str:
    """The hash of everything the verdict depends on."""
    manifests = sorted(ROOT.glob("crates/*/Cargo.toml"))
    files = [ROOT / "Cargo.lock", ROOT / "Cargo.toml", ROOT / "deny.toml", *manifests]
    digest = hashlib.sha256()
    for file in files:
        tables = tomllib.loads(file.read_text())
        # How crates are compiled and linted says nothing about which there are.
        for table in ("profile", "lints"):
            tables.pop(table, None)
        content = json.dumps(tables, sort_keys=True).encode()
        digest.update(f"{file.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def main() -> int:
    if sys.argv[1:] == ["--approve"]:
        APPROVED.write_text(state() + "\n")
        return 0
    approved = APPROVED.read_text().strip() if APPROVED.exists() else ""
    if approved == state():
        print("dependencies: as approved by cargo-deny (licences, bans, sources)")
        return 0
    print("dependencies: changed since cargo-deny approved them; it is run now, and `make deny` records its verdict")
    return subprocess.run(["make", "--no-print-directory", "deny"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
