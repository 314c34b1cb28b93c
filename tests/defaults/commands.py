"""The ways to a model file through the command line. All must end at the model of one `learn`, and at a file that `verify` passes."""

import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A command that did not do what it was told."""


def not_json(name):
    """Python reads NaN and Infinity; JSON has neither."""
    raise Failed(f"the answer holds {name}, which is no JSON")


class Place:
    """A directory with the data of a draw, and the command line in it."""

    def __init__(self, directory, draw, asked):
        self.directory, self.draw = directory, draw
        table = draw.table
        self.target = ",".join(table.targets.columns)
        whole = pd.concat([table.frame, table.targets], axis=1)
        for k, rows in enumerate(draw.tasks):
            whole.iloc[rows].to_csv(directory / f"t{k}.csv", index=False)
        names = np.concatenate([np.full(len(rows), f"t{k}", dtype=object) for k, rows in enumerate(draw.tasks)])
        rows = np.concatenate(draw.tasks)
        # Rows of all tasks in any order: tasks are found by their column.
        mixed = draw.rng.permutation(len(rows))
        named = whole.iloc[rows[mixed]].assign(task=names[mixed])
        named.to_parquet(directory / "named.parquet", index=False)
        named.to_csv(directory / "named.csv", index=False)
        asked.frame.to_csv(directory / "asked.csv", index=False)

    @property
    def names(self):
        """The tasks' names, which are also those of their files."""
        return [f"t{k}" for k in range(len(self.draw.tasks))]

    def run(self, *arguments):
        """Runs a command and gives what it printed."""
        program = os.environ.get("PMFCL_PROGRAM", "pmfcl")
        program = str(ROOT / program) if os.sep in program else program
        words = [str(word) for word in arguments]
        done = subprocess.run([program, *words], cwd=self.directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"pmfcl {' '.join(words)[:200]}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def json(self, *arguments):
        """Runs a command and gives its answer."""
        return json.loads(self.run(*arguments, "--json"), parse_constant=not_json)

    def learn(self, model, *files, **settings):
        """Learns files; settings are for a model that is not there yet."""
        options = [] if (self.directory / model).exists() else ["--target", self.target]
        if options and self.draw.table.classes and settings.get("loss", "gaussian") == "gaussian":
            options += ["--calibrate", "off"]  # what it measures depends on the way, and only that does
        for name, value in settings.items():
            options += [f"--{name.replace('_', '-')}", value]
        self.json("learn", model, *files, *options)

    def verified(self, model):
        """The answer of `show`, of a file that `verify` passes."""
        self.json("verify", model)
        return self.json("show", model)

    def answers(self, model):
        """What a model says of the rows asked of it, by output."""
        options = ["--proba"] if self.draw.table.classes else []
        printed = self.run("predict", model, "asked.csv", *options)
        frame = pd.read_csv(io.StringIO(printed), float_precision="round_trip")
        if self.draw.table.classes:
            frame = frame.drop(columns=frame.columns[0])
        return frame[sorted(frame)].to_numpy()

    def all_files(self):
        """The files of all tasks."""
        return [f"{name}.csv" for name in self.names]


def one_learn(place):
    """All rows at once."""
    place.learn("one.pmf", *place.all_files(), name="all")
    return "one.pmf"


def task_column(place):
    file = ["named.parquet", "named.csv"][int(place.draw.rng.integers(2))]
    place.learn("column.pmf", file, task_column="task")
    return "column.pmf"


def several_files(place):
    place.learn("files.pmf", *place.all_files())
    return "files.pmf"


def one_by_one(place):
    for k in place.draw.rng.permutation(len(place.names)):
        place.learn("later.pmf", f"t{k}.csv")
    return "later.pmf"


def compact(place):
    place.learn("compact.pmf", *place.all_files(), memory="compact")
    return "compact.pmf"


def merged(place):
    files = place.all_files()
    if len(files) < 2:
        return None
    at = int(place.draw.rng.integers(1, len(files)))
    place.learn("north.pmf", *files[:at])
    place.learn("south.pmf", *files[at:][::-1])
    place.json("merge", "merged.pmf", "north.pmf", "south.pmf")
    return "merged.pmf"


def relearned(place):
    place.learn("again.pmf", *place.all_files())
    name = place.names[int(place.draw.rng.integers(len(place.names)))]
    place.json("unlearn", "again.pmf", name)
    place.learn("again.pmf", f"{name}.csv")
    return "again.pmf"


def preferred(place):
    place.learn("preferred.pmf", *place.all_files())
    place.json("prefer", "preferred.pmf", "--samples")
    return "preferred.pmf"


WAYS = [task_column, several_files, one_by_one, compact, merged, relearned, preferred]


def other_commands(place):
    """Commands that change nothing must run, and answer in numbers."""
    # A page draws the fronts of all pairs of tasks; three are enough.
    files = place.all_files()[:3]
    place.learn("few.pmf", *files)
    place.run("show", "few.pmf")
    place.json("score", "few.pmf", *files)
    place.run("score", "few.pmf", *files)
    for kind in ("json", "onnx", "safetensors"):
        place.json("export", "few.pmf", "-o", f"few.{kind}")
    json.loads((place.directory / "few.json").read_text(encoding="utf-8"), parse_constant=not_json)
    place.json("predict", "few.pmf", files[0])
    if len(files) > 1:
        place.json("front", "few.pmf", *place.names[:2])
    place.json("report", "few.pmf", "-o", "page.html")
    page = (place.directory / "page.html").read_text(encoding="utf-8")
    shown = [word for word in (">NaN<", ">inf<", ">-inf<", ":NaN", ":Infinity", ":inf") if word in page]
    if shown:
        raise Failed(f"the report shows {shown[0]}")
