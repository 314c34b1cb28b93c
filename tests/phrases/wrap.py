"""Wraps the paragraphs and lists of Markdown files at 100 columns; tables, code, headings and HTML stay as they are.

python tests/phrases/wrap.py FILE…           rewrite the files
python tests/phrases/wrap.py --check FILE…   fail where a line that can be wrapped is too long
"""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 100
ITEM = re.compile(r"^(\s*)([-*+]|\d+\.)\s+")
FIXED = re.compile(r"^\s*(\||#|>|<|\[[^\]]+\]: )|^    ")


def wrapped(text: str) -> str:
    """The text with its paragraphs and list items wrapped."""
    out: list[str] = []
    block: list[str] = []
    fenced = False

    def flush() -> None:
        if not block:
            return
        found = ITEM.match(block[0])
        first = found.group() if found else ""
        rest = " " * len(first)
        # Two spaces or a backslash at the end of a line break it on purpose.
        words = " ".join(line.strip() for line in block)[len(first.strip()) :].strip()
        # Spaces inside code and links are not places to break at.
        words = re.sub(r"`[^`]*`", lambda m: m.group().replace(" ", "\0"), words)
        lines = textwrap.wrap(
            words,
            WIDTH,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        # A line must not begin with what Markdown takes for a list or a heading.
        out.extend(line.replace("\0", " ") for line in lines)
        block.clear()

    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            flush()
            fenced = not fenced
            out.append(line)
        elif fenced or FIXED.match(line) and not (block and line.startswith("    ")):
            flush()
            out.append(line)
        elif not line.strip():
            flush()
            out.append("")
        else:
            # Lines of links, one below the other, are a list without bullets.
            if ITEM.match(line) or (block and line.startswith("[")):
                flush()
            block.append(line)
    flush()
    return "\n".join(out) + "\n"


def main() -> int:
    """Rewrites or checks the files named."""
    check = "--check" in sys.argv
    failed = 0
    for name in sys.argv[1:]:
        if name == "--check":
            continue
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        new = wrapped(text)
        if text != new:
            failed += 1
            if check:
                print(f"{name}: not wrapped at {WIDTH} columns; `python tests/phrases/wrap.py {name}` wraps it")
            else:
                path.write_text(new, encoding="utf-8")
    return 1 if check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
