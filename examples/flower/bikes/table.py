"""One client's table: its rows of a quarter as numbers."""

from functools import cache

import pandas as pd

QUARTERS = [f"{year}Q{quarter}" for year in (2011, 2012) for quarter in (1, 2, 3, 4)]
NUMBERS = ["holiday", "workingday", "temp", "hum", "windspeed", "month_sin", "month_cos"]
HOURS = [f"h{hour:02}" for hour in range(24)]
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
# Named beforehand: no client has all the hours.
FEATURES = NUMBERS + HOURS + DAYS


@cache
def _read(path):
    return pd.read_csv(path)


def rows(path, step, split="train"):
    """Features and rentals of a quarter, or None where there are none."""
    table = _read(path)
    table = table[(table["quarter"] == QUARTERS[step]) & (table["split"] == split)]
    if table.empty:
        return None
    hours = pd.DataFrame({hour: (table["hour"] == hour).astype(float) for hour in HOURS})
    days = pd.DataFrame({day: (table["weekday"] == day).astype(float) for day in DAYS})
    features = pd.concat([table[NUMBERS].astype(float), hours, days], axis=1)
    return features[FEATURES], table["rentals"].astype(float)
