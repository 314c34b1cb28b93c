"""Data sets, and what is done to them: columns and rows that are known to be difficult."""

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

BUNDLED = Path(__file__).resolve().parents[2] / "data" / "bike_hourly.csv.gz"
# A target of more distinct whole numbers than this is a number, not a class.
MOST_CLASSES = 20


@dataclass(frozen=True)
class Table:
    """Rows with what is to be predicted of them: numbers, or one column of text, which are classes."""

    name: str
    frame: pd.DataFrame
    targets: pd.DataFrame
    weights: np.ndarray | None = None
    variation: str = "as it is"
    # Rows in each task, where the variation says so; else tasks of any size are drawn.
    task_rows: int | None = None
    notes: tuple = field(default=())

    @property
    def classes(self):
        """Whether classes are predicted."""
        return not pd.api.types.is_numeric_dtype(self.targets.dtypes.iloc[0])

    @functools.cached_property
    def X(self):
        """The features as an array; text as one column for each value."""
        text = [name for name in self.frame if not pd.api.types.is_numeric_dtype(self.frame[name])]
        return np.ascontiguousarray(pd.get_dummies(self.frame, columns=text).to_numpy(dtype=np.float64))

    @functools.cached_property
    def y(self):
        """The targets as an array: one column is one list."""
        values = self.targets.to_numpy(dtype=str if self.classes else np.float64)
        return values[:, 0] if values.shape[1] == 1 else np.ascontiguousarray(values)

    def rows(self, at, name=None):
        """Some of the rows, in the order given."""
        return replace(
            self,
            name=name or self.name,
            frame=self.frame.iloc[at].reset_index(drop=True),
            targets=self.targets.iloc[at].reset_index(drop=True),
            weights=None if self.weights is None else self.weights[at],
        )

    def mixed(self, rng):
        """As many rows of which none was learned: every column in another order."""
        columns = {name: rng.permutation(values.to_numpy()) for name, values in self.frame.items()}
        return replace(self, frame=pd.DataFrame(columns))


def bundled(rng, rows):
    """The two bundled sets: rentals of an hour as a number, and its weather as a class."""
    bike = pd.read_csv(BUNDLED).drop(columns=["quarter", "split"])
    # Three hours of storm in two years: all are kept.
    rare = np.flatnonzero(bike["weather"].map(bike["weather"].value_counts()) < 10)
    others = rng.choice(np.setdiff1d(np.arange(len(bike)), rare), size=rows - len(rare), replace=False)
    bike = bike.iloc[np.sort(np.concatenate([rare, others]))].reset_index(drop=True)
    numbers = Table("bike, rentals", bike.drop(columns="rentals"), bike[["rentals"]].astype(float))
    classes = Table("bike, weather", bike.drop(columns="weather"), bike[["weather"]])
    return [numbers, classes]


def read(path, rng, rows, columns):
    """A Parquet or CSV file with the targets `y`, `y2`, …; `task` and `split` are no features.

    A random choice of rows and columns where there are more than asked for; the table says so.
    """
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    names = [name for name in frame if name == "y" or (name[0] == "y" and name[1:].isdigit())]
    if not names:
        raise ValueError(f"{path}: there is no column `y` to predict")
    features = [name for name in frame if name not in {*names, "task", "split"}]
    notes = []
    if len(frame) > rows:
        notes.append(f"{rows} of {len(frame)} rows")
        frame = frame.iloc[np.sort(rng.choice(len(frame), size=rows, replace=False))].reset_index(drop=True)
    if len(features) > columns:
        notes.append(f"{columns} of {len(features)} columns")
        features = [features[j] for j in np.sort(rng.choice(len(features), size=columns, replace=False))]
    targets = frame[names]
    first = targets[names[0]]
    whole = pd.api.types.is_integer_dtype(first) and first.nunique() <= MOST_CLASSES
    if whole or not pd.api.types.is_numeric_dtype(first):
        # As text, so that the command line takes them for classes without being told.
        targets = ("class " + targets[names[:1]].astype(str)).rename(columns={names[0]: "y"})
    else:
        targets = targets.astype(float)
    frame = frame[features]
    numbers = frame.select_dtypes("number").columns
    frame = frame.assign(**{name: frame[name].astype(float) for name in numbers})
    stem = path.name.split(".")[0]
    return Table(stem, frame.reset_index(drop=True), targets.reset_index(drop=True), notes=tuple(notes))


# ---- variations ----


def with_columns(table, **columns):
    """More columns at the end."""
    return replace(table, frame=table.frame.assign(**columns))


def numeric(table):
    """Names of the columns of numbers that vary."""
    names = [name for name in table.frame if pd.api.types.is_numeric_dtype(table.frame[name])]
    return [name for name in names if table.frame[name].nunique() > 1]


def as_it_is(table, rng):
    """Nothing."""
    return table


def a_constant_column(table, rng):
    """0.1 cannot be written in binary, so that sums of it are rounded."""
    return with_columns(table, always=0.1)


def a_large_constant_column(table, rng):
    """A unit of measurement far from the others."""
    return with_columns(table, always=1e6)


def a_repeated_column(table, rng):
    """The same column twice."""
    return with_columns(table, again=table.frame[numeric(table)[0]])


def a_repeated_scaled_column(table, rng):
    """The same column in another unit: dependent, except for rounding."""
    return with_columns(table, again=table.frame[numeric(table)[-1]] / 3.0)


def a_zero_column(table, rng):
    """A category that never occurs."""
    return with_columns(table, never=0.0)


def a_nearly_constant_column(table, rng):
    """One that varies in its last seven digits."""
    return with_columns(table, nearly=1.0 + 1e-9 * rng.normal(size=len(table.frame)))


def columns_in_other_units(table, rng):
    """Columns 1e12 times as large, and as small."""
    factors = {name: (1e12, 1e-12)[j % 2] for j, name in enumerate(numeric(table))}
    return with_columns(table, **{name: table.frame[name] * factor for name, factor in factors.items()})


def columns_far_from_zero(table, rng):
    """A million standard deviations away, as timestamps are."""
    far = {name: table.frame[name] + 1e6 * table.frame[name].std() for name in numeric(table)[:3]}
    return with_columns(table, **far)


def fewer_rows_than_columns(table, rng):
    """Half as many."""
    rows = max(4, table.X.shape[1] // 2)
    return table.rows(np.sort(rng.choice(len(table.frame), size=rows, replace=False)))


def as_many_rows_as_columns(table, rng):
    """No degree of freedom is left."""
    rows = table.X.shape[1] + 1
    return table.rows(np.sort(rng.choice(len(table.frame), size=rows, replace=False)))


def tasks_of_one_row(table, rng):
    """Fifty rows one by one."""
    return replace(table.rows(np.sort(rng.choice(len(table.frame), size=50, replace=False))), task_rows=1)


def tasks_of_two_rows(table, rng):
    """A hundred rows in pairs."""
    return replace(table.rows(np.sort(rng.choice(len(table.frame), size=200, replace=False))), task_rows=2)


def sample_weights(table, rng):
    """Rows that count for more or less than one."""
    return replace(table, weights=rng.uniform(0.1, 3.0, size=len(table.frame)))


def small_sample_weights(table, rng):
    """Weights that sum to less than there are columns."""
    return replace(table, weights=rng.uniform(0.5, 1.5, size=len(table.frame)) / len(table.frame))


def one_target_for_all(table, rng):
    """A target that does not vary, or one class."""
    same = "only" if table.classes else 3.7
    return replace(table, targets=pd.DataFrame({name: same for name in table.targets}, index=table.targets.index))


def a_target_without_noise(table, rng):
    """A target that the columns give exactly; classes that a column tells apart."""
    if table.classes:
        first = numeric(table)[0]
        high = table.frame[first] > table.frame[first].median()
        return replace(table, targets=pd.DataFrame({table.targets.columns[0]: np.where(high, "high", "low")}))
    z = (table.X - table.X.mean(axis=0)) / np.maximum(table.X.std(axis=0), 1e-300)
    exact = z @ rng.normal(size=(z.shape[1], table.targets.shape[1]))
    return replace(table, targets=pd.DataFrame(exact, columns=table.targets.columns))


def a_target_far_from_zero(table, rng):
    """A million standard deviations away."""
    if table.classes:
        return None
    return replace(table, targets=table.targets + 1e6 * table.targets.std())


VARIATIONS = [
    as_it_is,
    a_constant_column,
    a_large_constant_column,
    a_repeated_column,
    a_repeated_scaled_column,
    a_zero_column,
    a_nearly_constant_column,
    columns_in_other_units,
    columns_far_from_zero,
    fewer_rows_than_columns,
    as_many_rows_as_columns,
    tasks_of_one_row,
    tasks_of_two_rows,
    sample_weights,
    small_sample_weights,
    one_target_for_all,
    a_target_without_noise,
    a_target_far_from_zero,
]


def varied(table, variation, rng):
    """A table after a variation; None where it does not apply."""
    other = variation(table, rng)
    return None if other is None else replace(other, variation=variation.__name__.replace("_", " "))
