"""The public names of the core, as rustdoc lists them, against the list that is kept: growth is a decision.

    python3 tests/surface/check.py           # compare target/doc/pmfcl/all.html with tests/surface/core.txt
    python3 tests/surface/check.py --write   # take what is there as the new list

Items marked `#[doc(hidden)]` are for the other crates of the workspace and do not count.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "target/doc/pmfcl/all.html"
LIST = Path(__file__).with_name("core.txt")


def public_names(page: str) -> list[str]:
    """`kind module::Name` of each item on rustdoc's page of all items."""
    found = re.findall(r'<a href="(?:[^"]*/)?(\w+)\.\w+\.html">([\w:]+)</a>', page)
    return sorted(f"{kind} {name}" for kind, name in found)


def main() -> int:
    if not PAGE.exists():
        print(f"{PAGE.relative_to(ROOT)} is missing: run `make docs` first", file=sys.stderr)
        return 1
    names = public_names(PAGE.read_text())
    if len(names) < 20:
        print(f"only {len(names)} names found: the page of rustdoc has another form", file=sys.stderr)
        return 1
    if "--write" in sys.argv[1:]:
        LIST.write_text("\n".join(names) + "\n")
        return 0
    kept = LIST.read_text().split("\n")[:-1]
    added, removed = sorted(set(names) - set(kept)), sorted(set(kept) - set(names))
    for sign, which in (("+", added), ("-", removed)):
        for name in which:
            print(f"{sign} {name}", file=sys.stderr)
    if added or removed:
        print(
            "The public names of the core changed. Hide what other crates alone need (`#[doc(hidden)]` with the reason);"
            " if the change is meant, run `python3 tests/surface/check.py --write` and commit tests/surface/core.txt.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
