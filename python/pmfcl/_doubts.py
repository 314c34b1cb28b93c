"""Texts of a frame that are probably not what they would be taken for; the rules are those of the command line.

A column of text becomes categories. A column that pandas, Polars or Arrow hold as categories was meant so, and is not looked at.
"""

import datetime
import re
from collections.abc import Iterable
from typing import Any

from ._labels import name_of

# The first rows are looked at, as many as the command line looks at.
ROWS = 1000
# A text of which there are this many, and one for more than a third of the rows, names rows; of fewer nearly all must differ.
FEW, MANY = 20, 50

COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")


def is_categorical(series: Any) -> bool:
    """Whether a column is held as categories."""
    kind = getattr(series, "dtype", None)
    return (
        "Categorical" in type(kind).__name__ + str(kind)
        or str(kind) == "Enum"
        or "dictionary" in str(getattr(series, "type", ""))
    )


def is_number(text: str) -> bool:
    """Whether a text is a number as programs write it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Whether a text is a date or time as ISO 8601 writes it."""
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) >= len("2024-01-31") and text[4:5] == "-"


def refuse(name: str, values: Iterable[Any], missing: Any, what: str = "column") -> None:
    """Raises where texts are numbers with a comma, numbers with a few words among them, dates, or identifiers."""
    there = [(row, name_of(value)) for row, value in enumerate(values) if row < ROWS and not missing(value)]
    texts = [text for _, text in there]
    if not texts:
        return
    category = "astype('category') takes it as categories"
    if all(COMMA.fullmatch(text) or is_number(text) for text in texts) and any(COMMA.fullmatch(text) for text in texts):
        row, text = next((row, text) for row, text in there if COMMA.fullmatch(text))
        raise ValueError(
            f"{what} '{name}' at row {row}: '{text}' is a number with a comma, and every number would be a category; read the table "
            f"with decimal=',' (and thousands='.'), or {category}"
        )
    words = [(row, text) for row, text in there if not is_number(text)]
    if words and len(texts) - len(words) >= 9 * len(words):
        row, text = words[0]
        raise ValueError(
            f"{what} '{name}' at row {row}: '{text}' stands among numbers ({len(texts) - len(words)} of {len(texts)} rows hold one), so "
            f"all of them would be categories; read the table with na_values=['{text}'], or {category}"
        )
    if all(map(is_date, texts)):
        raise ValueError(
            f"{what} '{name}' at row {there[0][0]}: '{texts[0]}' is a date, and every date would be a category; make dates of them "
            f"(pandas.to_datetime), or {category}"
        )
    levels = len(set(texts))
    if (levels >= MANY and 3 * levels > len(texts)) or (levels > FEW and 10 * levels >= 9 * len(texts)):
        raise ValueError(
            f"{what} '{name}' at row {there[0][0]}: '{texts[0]}' is one of {levels} different texts in {len(texts)} rows, which would be "
            f"an input each: this looks like an identifier; leave the column out, or {category}"
        )
