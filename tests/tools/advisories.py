"""Advisories of a RustSec database that concern the crates of Cargo.lock, where there is no network for `cargo deny`.

    python tests/tools/advisories.py DATABASE    DATABASE: a git directory of rustsec/advisory-db

Exit 1 when there is one that deny.toml does not name.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKS = ("Cargo.lock", "fuzz/Cargo.lock")
Version = tuple[list[int], bool, str]


def version(text: str) -> Version:
    """Numbers, whether it is a release, and what a pre-release is called: these compare as versions do."""
    core, _, early = text.strip().partition("+")[0].partition("-")
    numbers = [int(part) for part in core.split(".")]
    return numbers + [0] * (3 - len(numbers)), not early, early


def satisfies(found: str, requirement: str) -> bool:
    """Whether a version is within a requirement such as `>= 1.2, < 2`."""
    for part in requirement.split(","):
        matched = re.fullmatch(r"(>=|<=|>|<|=|\^|~)?\s*(\S+)", part.strip())
        if matched is None:
            raise ValueError(f"no requirement: {requirement}")
        kind, a, b = matched[1] or "^", version(found), version(matched[2])
        first = next((i for i, number in enumerate(b[0]) if number), 2)
        within = {
            ">=": a >= b,
            "<=": a <= b,
            ">": a > b,
            "<": a < b,
            "=": a == b,
            "~": a >= b and a[0][:2] == b[0][:2],
            "^": a >= b and a[0][: first + 1] == b[0][: first + 1],
        }
        if not within[kind]:
            return False
    return True


def main(database: str) -> int:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", database, *words], capture_output=True, text=True, check=True).stdout

    paths: dict[str, list[str]] = {}
    for path in git("ls-tree", "-r", "--name-only", "HEAD").splitlines():
        if path.startswith("crates/") and path.endswith(".md"):
            paths.setdefault(path.split("/")[1], []).append(path)
    known = tomllib.loads((ROOT / "deny.toml").read_text())["advisories"]["ignore"]
    named = {one["id"] for one in known}
    packages = {
        (package["name"], package["version"])
        for lock in LOCKS
        for package in tomllib.loads((ROOT / lock).read_text())["package"]
        if "source" in package
    }
    unknown = 0
    for name, found in sorted(packages):
        for path in paths.get(name, []):
            text = git("show", f"HEAD:{path}")
            facts = tomllib.loads(text.split("```toml")[1].split("```")[0])
            advisory, versions = facts["advisory"], facts.get("versions", {})
            sound = [*versions.get("patched", []), *versions.get("unaffected", [])]
            if "withdrawn" in advisory or any(satisfies(found, requirement) for requirement in sound):
                continue
            is_known = advisory["id"] in named
            unknown += not is_known
            kind = advisory.get("informational", "vulnerability")
            print(f"{name} {found}: {advisory['id']}, {kind}{' (named in deny.toml)' if is_known else ''}")
    date = git("log", "-1", "--format=%cs").strip()
    count = sum(map(len, paths.values()))
    print(f"{len(packages)} crates against {count} advisories of {date}: {unknown} that deny.toml does not name")
    return int(unknown > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
