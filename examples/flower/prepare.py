"""Cuts the bundled bike rentals into three clients' files: who has the early, the middle and the late hours of the day."""

import sys
from pathlib import Path

import pandas as pd

DATA = Path(__file__).resolve().parents[2] / "data" / "bike_hourly.csv.gz"


def main(directory):
    """Writes early.csv, day.csv and late.csv."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(DATA)
    part = table["hour"].str[1:].astype(int) // 8
    for number, name in enumerate(("early", "day", "late")):
        table[part == number].to_csv(directory / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "parts")
