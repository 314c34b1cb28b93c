"""Fails on phrases that a stranger would stumble over. Each has an ordinary word instead.

    python tests/phrases/check.py [FILE…]      (all tracked files without FILE)

A line that needs the phrase ends with a comment that holds `phrase-ok`.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENDINGS = {".rs", ".py", ".pyi", ".md", ".toml", ".js", ".css", ".sh"}

# Not checked: the paper, the licences and this list.
EXCLUDED = re.compile(r"^(docs/paper\.txt|LICENSE|tests/phrases/|data/|crates/pmfcl-plot/fonts/)")

COUNTED = (
    "one|two|three|summary|summaries|bytes?|kilobytes?|megabytes?|numbers?|seconds?|minutes?"
    "|lines?|calls?|passes|rounds?|bars?|vectors?|cop(?:y|ies)|columns?|entr(?:y|ies)|times"
)
UNITS = "task|client|row|file|column|class|step|round|batch|target|upload|node|test|chart"

# What is matched, and what to write instead. Case does not matter in prose.
PROSE = [
    (rf"\b(?:{COUNTED}) an? (?:{UNITS})\b(?! (?:\w+s|row)\b)", "… per task, per client"),
    (r"\bcheck numbers?\b", "checksum"),
    (r"\b(?:is|are) (?:then )?what (?:it|they) (?:was|were)\b", "is unchanged"),
    (r"\bmakes? no sense\b", "is invalid"),
    (r"\b(?:is|are|was|were) let go\b|\blets? (?:the|its|their) rows go\b", "is discarded"),
    (r"\bat hand\b", "available"),
    (r"\bdear(?:er|est)?\b", "expensive"),
    (r"\bbut for\b", "except"),
    (r"\btruth values?\b", "boolean"),
    (r"\bnumbers? of single precision\b", "f32"),
    (r"\bwords? of settings?\b", "setting names"),
    (r"\bboil(?:s|ed|ing)? (?:\w+ ){0,3}down\b", "summarize"),
    (r"\bwish(?:es)?\b", "selection"),
    (r"\bbeside\b", "extra, next to, in addition to"),
    (r"\bshelve[sd]?\b", "choose storage"),
    (r"\b(?:category|categories|class|classes) (?:is |are )?met\b", "seen"),
]

# Names in code. Only exact names: `stages` or `reached` are ordinary words.
NAME = "boil|away|supply|admit|shelve|tell|say|wish|beside|voice|mind|race|touch|blame"
CODE = [
    (rf"\b(?:fn|def) (?:{NAME})\b", "a verb for what it does: summarize, load, check, report, print"),
    (r"\b(?:struct|enum|trait|type|class) (?:Wish|Beside|Voice|Mind|Race|Touch|Reach)\b", "a noun"),
    (r"\blet (?:mut )?(?:wish|beside|voice|mind)\b", "selection, extra, verbosity, preference"),
]
ALL = [(re.compile(p, re.IGNORECASE), w) for p, w in PROSE] + [(re.compile(p), w) for p, w in CODE]


def checked(name: str) -> bool:
    """Whether a file of this name is text of ours."""
    return name == "Makefile" or Path(name).suffix in ENDINGS


def files() -> list[Path]:
    """The files named, or all tracked ones that are checked."""
    if len(sys.argv) > 1:
        return [Path(name).resolve() for name in sys.argv[1:]]
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    kept = (n for n in tracked if n and not EXCLUDED.match(n) and checked(n))
    return [ROOT / name for name in kept if (ROOT / name).is_file()]


def main() -> int:
    """Prints every hit as FILE:LINE: phrase → instead."""
    hits = 0
    for path in files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "phrase-ok" in line:
                continue
            for pattern, instead in ALL:
                for match in pattern.finditer(line):
                    hits += 1
                    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    print(f"{shown}:{number}: `{match.group()}`; write: {instead}")
    if hits:
        print(f"{hits} phrases to replace; see CONTRIBUTING.md, «Plain language»", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
