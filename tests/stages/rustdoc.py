#!/usr/bin/env python3
"""rustdoc for `make docs`: writes the documents of a crate, in which every warning is an error, then runs its examples.

`cargo test --doc` calls it in the place of rustdoc (variable RUSTDOC) with `--test` and the libraries that the tests were linked with.
"""

import os
import subprocess
import sys
from pathlib import Path

# Options of `--test` alone, and how many words follow each.
OF_TESTS = {"--test": 0, "--no-run": 0, "--test-run-directory": 1, "--test-args": 1, "--test-runtool": 1}


def without_tests(arguments: list[str]) -> list[str]:
    """The same call without the examples."""
    kept = []
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in OF_TESTS:
            kept.append(word)
        elif not equals:
            for _ in range(OF_TESTS[name]):
                next(words)
    return kept


def main() -> int:
    arguments = sys.argv[1:]
    if "--test" in arguments:
        target = os.environ.get("CARGO_TARGET_DIR", "target")
        out = Path(__file__).resolve().parents[2] / target / "doc"
        documents = ["rustdoc", *without_tests(arguments), "--out-dir", str(out), "-D", "warnings"]
        code = subprocess.run(documents, check=False).returncode
        if code != 0:
            return code
    return subprocess.run(["rustdoc", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
