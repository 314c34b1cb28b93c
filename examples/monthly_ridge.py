"""Exact monthly updates of a ridge model.

Two years of hourly bike rentals arrive month by month. After every month the model equals `Ridge` refitted on all rows so far,
though only summaries are kept: some kilobytes in place of the table.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from pmfcl import ContinualRegressor
from sklearn.linear_model import Ridge

DATA = Path(__file__).resolve().parents[1] / "data" / "bike_hourly.csv.gz"


def months():
    """Rows and rentals of every month, in order."""
    table = pd.read_csv(DATA)
    number = np.round(np.arctan2(table["month_sin"], table["month_cos"]) / (2 * np.pi) * 12).astype(int)
    month = table["quarter"].str[:4] + "-" + ((number - 1) % 12 + 1).astype(str).str.zfill(2)
    categories = pd.get_dummies(table[["hour", "weekday", "weather"]], dtype=float)
    features = pd.concat([table[["workingday", "temp", "hum", "windspeed"]].astype(float), categories], axis=1)
    for name, rows in table.groupby(month).groups.items():
        yield name, features.loc[rows], table.loc[rows, "rentals"]


def main():
    """Learns month by month, and compares with refitting at the end."""
    ridge = 1e-3
    model = ContinualRegressor(ridge=ridge)
    seen = []
    for month, X, y in months():
        before = model.score(X, y) if seen else float("nan")
        model.partial_fit(X, y, task=month)
        seen.append((X, y))
        print(f"{month}  {len(X):5} rows   R² before learning them {before:6.3f}, after {model.score(X, y):6.3f}")
    X, y = pd.concat([X for X, _ in seen]), pd.concat([y for _, y in seen])
    refitted = Ridge(alpha=ridge * len(X)).fit(X, y)
    gap = np.abs(model.predict(X) - refitted.predict(X)).max()
    worst = max(model.tasks_, key=lambda task: task["forgetting"])
    print(f"\nlargest difference to Ridge on all {len(X)} rows: {gap:.1e} rentals")
    print(f"memory {model.state_bytes_} bytes; the table had {X.to_numpy().nbytes + y.to_numpy().nbytes}")
    print(f"most forgotten: {worst['name']}, loss {worst['loss']:.0f} where {worst['min_loss']:.0f} was possible")
    return {"gap": gap, "bytes": model.state_bytes_, "months": len(seen)}


if __name__ == "__main__":
    main()
