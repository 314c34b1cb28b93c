"""What pmfcl exports, read by others: onnxruntime must say what pmfcl says, and so must NumPy with the bare weights.

The cases come from `cargo run -p pmfcl-export --example cases -- DIRECTORY`. Where PMFCL_CASES names that program, it is
run as it is; otherwise cargo builds it first.
"""

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[2]
LOSSES = {"squared", "huber", "poisson", "gaussian", "logistic"}
BASES = {"linear", "auto", "poly", "log", "exp", "power", "spline", "rbf", "rff", "relu", "ntk"}
# Both sides round once for each of some hundred operations, and results as small as 1/100 of their column are compared with it.
TOLERANCE = 1e-11
# Two probabilities this close may swap places.
TIE = 1e-9
# Below this, doubles lose digits.
TINY = 1e-300


@pytest.fixture(scope="session")
def cases(tmp_path_factory):
    """Every case, by name."""
    directory = tmp_path_factory.mktemp("cases")
    program = os.environ.get("PMFCL_CASES")
    command = [program] if program else ["cargo", "run", "--quiet", "-p", "pmfcl-export", "--example", "cases", "--"]
    subprocess.run([*command, str(directory)], cwd=ROOT, check=True)
    found = {path.name: Case(path) for path in sorted(directory.iterdir())}
    assert {case.facts["basis"] for case in found.values()} == BASES
    assert {case.json["loss"].partition(":")[0] for case in found.values()} == LOSSES
    return found


class Case:
    """A model, what it was asked, and what pmfcl answered."""

    def __init__(self, path):
        self.path = path
        self.facts = json.loads((path / "case.json").read_text(encoding="utf-8"))
        self.json = json.loads((path / "model.json").read_text(encoding="utf-8"))

    def feeds(self, rows=slice(None)):
        """The inputs of the graph."""
        feeds = {
            text["input"]: np.array(text["cells"], dtype=object).reshape(-1, 1)[rows] for text in self.facts["texts"]
        }
        numbers = np.array(self.facts["numbers"], dtype=np.float64)
        if numbers.size:
            feeds["X"] = numbers[rows]
        return feeds

    def expected(self):
        """What pmfcl answered, by the names of the graph's outputs."""
        if "predictions" in self.facts:
            return {"Y": np.array(self.facts["predictions"])}
        return {"label": np.array(self.facts["labels"]), "probabilities": np.array(self.facts["probabilities"])}


def session(model):
    """A model under onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def difference(found, expected, floor):
    """The largest difference relative to the value expected, or to a floor under small ones."""
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), floor), initial=0.0))


def compare(case, found):
    """The largest difference between numbers; labels must agree except for ties."""
    expected = case.expected()
    assert found.keys() == expected.keys()
    if case.json.get("link") == "exp":
        # What is an absolute error of the linear predictor is a relative one of its exponential.
        found, expected = (np.log(values["Y"].clip(min=TINY)) for values in (found, expected))
        return difference(found, expected, 1.0)
    if "Y" in expected:
        # A target near 0 is a difference of larger numbers: its size is that of the column. Units may be dead.
        return difference(found["Y"], expected["Y"], 1e-2 * np.median(np.abs(expected["Y"]), axis=0).clip(min=1e-3))
    probabilities = expected["probabilities"]
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, rtol=0, atol=1e-14)
    best = np.sort(probabilities, axis=1)[:, ::-1]
    clear = best[:, 0] - best[:, 1] > TIE
    assert (found["label"] == expected["label"])[clear].all()
    return difference(found["probabilities"], probabilities, 1e-9)


def tolerance(case):
    """What rounding allows. Scores of a gaussian model are sums of terms that may be far larger than they are, where columns nearly
    depend on each other and are hardly shrunk: an error of `ε Σ |θ φ|` for each addition, divided by the temperature, is a relative
    one of the probabilities."""
    if case.json["loss"] != "gaussian":
        return TOLERANCE
    weights, _ = tensors(case)
    phi, intercept = columns(case, weights), weights["intercept"]
    terms = np.abs(phi) @ np.abs(weights["coef"]).T + np.abs(np.where(np.isfinite(intercept), intercept, 0.0))
    temperature = min(1.0, case.json["probabilities"].get("temperature", 1.0))
    return TOLERANCE + np.finfo(float).eps * (phi.shape[1] + 8) * terms.max() / temperature


def ask(case, model, rows=slice(None)):
    """What onnxruntime answers."""
    runner = session(model)
    names = [output.name for output in runner.get_outputs()]
    return dict(zip(names, runner.run(names, case.feeds(rows)), strict=True))


def test_onnxruntime_answers_as_pmfcl_does(cases, capsys):
    largest = defaultdict(float)
    for name, case in cases.items():
        worst = compare(case, ask(case, (case.path / "model.onnx").read_bytes()))
        assert worst <= tolerance(case), name
        spec = case.facts["spec"]
        largest[spec] = max(largest[spec], worst)
    with capsys.disabled():
        print(f"\n{len(cases)} models; largest relative difference by basis:")
        for spec, worst in largest.items():
            print(f"  {spec:28} {worst:.1e}")


def test_the_reference_evaluator_agrees(cases):
    """Another reader of the same files: no answer rests on what onnxruntime makes of them."""
    for name, case in cases.items():
        if name.endswith(
            ("squared-1-origin", "huber-1", "poisson-1", "squared-four-absent", "gaussian-four-absent", "logistic-two")
        ):
            runner = ReferenceEvaluator(str(case.path / "model.onnx"))
            found = dict(zip(runner.output_names, runner.run(None, case.feeds()), strict=True))
            assert compare(case, found) <= tolerance(case), name


def test_a_logarithm_near_zero_keeps_its_digits(cases):
    case = cases["log-lone-squared-1-origin"]
    x = np.array([[0.0], [1e-20], [-1e-12], [1e-9], [-3e-5], [0.7], [-1e300]])
    (found,) = session((case.path / "model.onnx").read_bytes()).run(["Y"], {"X": x})
    np.testing.assert_allclose(found, case.json["coef"][0] * np.sign(x) * np.log1p(np.abs(x)), rtol=1e-14, atol=0)


def test_far_from_all_centres_only_the_intercept_is_left(cases):
    case = cases["rbf_12_scale_range-numbers-squared-1"]
    x = np.array([[1e200, 0.0, 0.0], [1e308, -1e308, 1e308], [0.0, 60.0, 0.0]])
    (found,) = session((case.path / "model.onnx").read_bytes()).run(["Y"], {"X": x})
    assert (found == case.json["intercept"]).all()


def test_labels_follow_scores_even_where_probabilities_tie(cases):
    """Indicators clipped to 0 or 1 tie as probabilities, but not as scores."""
    tied = 0
    for name, case in cases.items():
        if "squared" not in name or "labels" not in case.facts:
            continue
        found = ask(case, (case.path / "model.onnx").read_bytes())
        probabilities = np.array(case.facts["probabilities"])
        best = np.sort(probabilities, axis=1)[:, ::-1]
        tied += int((best[:, 0] - best[:, 1] <= 0).sum())
        assert (found["label"] == np.array(case.facts["labels"])).all(), name
    assert tied > 0


def test_the_full_checker_accepts_every_model(cases):
    for case in cases.values():
        model = onnx.load(case.path / "model.onnx")
        onnx.checker.check_model(model, full_check=True)
        assert model.producer_name == "pmfcl"
        assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 26)]
        # Read and written again by the official library, not a byte changes: no field of ours is unknown or misplaced.
        assert model.SerializeToString(deterministic=True) == (case.path / "model.onnx").read_bytes()
        batch = {value.type.tensor_type.shape.dim[0].dim_param for value in [*model.graph.input, *model.graph.output]}
        assert batch == {"N"}


def test_an_older_opset_says_the_same(cases):
    for name, case in cases.items():
        if name.endswith(
            ("squared-3", "huber-1", "poisson-1", "gaussian-four-absent", "squared-four-absent", "logistic-two")
        ):
            old = case.path / "model-19.onnx"
            model = onnx.load(old)
            onnx.checker.check_model(model, full_check=True)
            assert model.opset_import[0].version == 19
            assert compare(case, ask(case, old.read_bytes())) <= tolerance(case), name


def test_one_row_and_no_row_pass(cases):
    for name, case in cases.items():
        if not name.endswith(("squared-1", "gaussian-four")):
            continue
        runner = session((case.path / "model.onnx").read_bytes())
        output = "Y" if "predictions" in case.facts else "probabilities"
        expected = case.expected()[output]
        (one,) = runner.run([output], case.feeds(slice(5, 6)))
        assert difference(one, expected[5:6], 1e-2 * np.abs(expected).max()) <= tolerance(case), name
        (none,) = runner.run([output], case.feeds(slice(0, 0)))
        assert none.shape == (0, expected.shape[1]), name


def test_a_category_the_model_does_not_know_is_an_error(cases):
    """As in `pmfcl predict`; other rows of the same table do not change that."""
    asked = 0
    for name, case in cases.items():
        model = (case.path / "model.onnx").read_bytes()
        facts = {entry.key: entry.value for entry in onnx.load_from_string(model).metadata_props}
        if not case.facts["texts"]:
            assert "unknown_category" not in facts
            continue
        assert facts["unknown_category"] == "error"
        if not name.endswith(("squared-1", "gaussian-four", "logistic-two")):
            continue
        for text in case.facts["texts"]:
            for rows, at in ((slice(None), 17), (slice(3, 4), 0)):
                for value in ("monsoon", "GRÖSSER", " "):
                    feeds = case.feeds(rows)
                    feeds[text["input"]] = feeds[text["input"]].copy()
                    feeds[text["input"]][at, 0] = value
                    with pytest.raises(Exception, match=f"unknown_category_in_{text['input']}"):
                        session(model).run(None, feeds)
        with pytest.raises(IndexError):
            ReferenceEvaluator(onnx.load_from_string(model)).run(None, feeds)
        asked += 1
    assert asked > 20


def test_metadata_names_columns_and_outputs(cases):
    for case in cases.values():
        model = onnx.load(case.path / "model.onnx")
        facts = {entry.key: entry.value for entry in model.metadata_props}
        numbers = [entry["number"] for entry in case.json["inputs"] if "number" in entry]
        assert json.loads(facts["numbers"]) == numbers
        assert json.loads(facts["inputs"]) == case.json["inputs"]
        assert json.loads(facts["features"]) == case.json["features"]
        texts = [{key: text[key] for key in ("input", "column")} for text in case.facts["texts"]]
        assert json.loads(facts["texts"]) == texts
        names = "targets" if "targets" in case.json else "classes"
        assert json.loads(facts[names]) == case.json[names]
        for key in ("basis", "loss", "link"):
            assert facts.get(key) == case.json.get(key)
        assert ("link" in facts) == ("targets" in facts)
        assert all(name in model.doc_string for name in numbers)


def tensors(case):
    """Tensors and metadata by the official library."""
    with safe_open(case.path / "model.safetensors", framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def columns(case, weights):
    """φ of the rows asked, from bare weights: slow, obvious and shared with nobody."""
    x = np.array(case.facts["encoded"])
    kind, _, rest = case.json["basis"].partition(":")
    number = rest.partition(",")[0]
    if "basis.groups" not in weights:
        return features(kind, number, x, weights)
    mean, deviation = weights["basis.mean"], weights["basis.deviation"]
    z = np.clip((x - mean) / deviation, -1e100, 1e100)
    far = mean + np.sign(z) * deviation * (8 - 16 / np.maximum(np.abs(z), 4))
    made = []
    for group, (code, skip) in enumerate(weights["basis.groups"]):
        if code == 0:
            made.append(np.where(np.abs(z) <= 4, x, far))
            continue
        if code == 3:
            made.append(x)
            continue
        own = {
            f"basis.{name.split('.', 2)[2]}": value
            for name, value in weights.items()
            if name.startswith(f"basis.{group}.")
        }
        lists = (weights.get("basis.knots"), weights.get("basis.ranks"))
        if code == 1:
            seen = z / np.sqrt(1 + (z / 4) ** 2)
        else:
            seen = np.stack([np.interp(x[:, j], lists[0][j], lists[1][j]) for j in range(x.shape[1])], axis=1)
        inside, share = seen, 0
        if "basis.lo" in own:
            inside = np.clip(seen, own["basis.lo"], own["basis.hi"])
            share = np.repeat(seen, int(number if kind == "spline" else "6"), axis=1) / 20
        found = features(inner(kind, own), number if kind == "spline" else "6", inside, own)
        made.append((found + share)[:, skip:])
    return np.concatenate(made, axis=1)


def inner(kind, weights):
    """Which features the numbers of a group are of."""
    if kind != "auto":
        return kind
    named = {"basis.parent": "poly", "basis.lo": "spline", "basis.phase": "rff"}
    return next(kind for name, kind in named.items() if name in weights)


def features(kind, number, x, weights):
    """φ of rows in the units of the basis."""
    if kind == "linear":
        return x
    if kind == "log":
        return np.sign(x) * np.log1p(np.abs(x))
    if kind == "exp":
        return np.exp(x)
    if kind == "power":
        return np.sign(x) * np.abs(x) ** float(number)
    if kind == "poly":
        made = []
        for parent, factor in zip(weights["basis.parent"], weights["basis.input"], strict=True):
            made.append(x[:, factor] * (made[parent] if parent >= 0 else 1.0))
        return np.stack(made, axis=1)
    if kind == "spline":
        return splines(x, int(number), weights["basis.lo"], weights["basis.hi"])
    x = (x - weights["basis.shift"]) / weights["basis.spread"]
    z = x @ weights["basis.weights"]
    if kind == "rff":
        return np.sqrt(2 / z.shape[1]) * np.cos(z + weights["basis.phase"])
    if kind == "relu":
        return np.maximum(z + weights["basis.bias"], 0)
    if kind == "rbf":
        distances = ((x[:, :, None] - weights["basis.weights"]) ** 2).sum(axis=1)
        return np.exp(-distances / (2 * weights["basis.length"] ** 2))
    assert kind == "ntk"
    return np.concatenate([x[:, [j]] * weights["basis.outer"] * (z >= 0) for j in range(x.shape[1])], axis=1)


def splines(x, count, lo, hi):
    """Cox and de Boor's recursion on uniform knots; beyond the range, the tangents at its ends."""

    def basis(knots, i, degree, x):
        if degree == 0:
            return ((knots[i] <= x) & (x < knots[i + 1])).astype(float)
        left = (x - knots[i]) / (knots[i + degree] - knots[i])
        right = (knots[i + degree + 1] - x) / (knots[i + degree + 1] - knots[i + 1])
        return left * basis(knots, i, degree - 1, x) + right * basis(knots, i + 1, degree - 1, x)

    made = []
    for j in range(x.shape[1]):
        step = (hi[j] - lo[j]) / (count - 2)
        knots = lo[j] + step * (np.arange(count + 5) - 3)
        inside = np.clip(x[:, j], lo[j], hi[j])
        for i in range(count):
            slope = 3 * (basis(knots, i, 2, inside) - basis(knots, i + 1, 2, inside)) / (3 * step)
            made.append(basis(knots, i, 3, inside) + slope * (x[:, j] - inside))
    return np.stack(made, axis=1)


def conclude(case, scores, made):
    """Outputs from scores, by the rule the file names."""
    if "targets" in case.json:
        if "limits" in case.json:
            scores = np.clip(scores, *np.transpose(case.json["limits"]))
        return {"Y": {"identity": lambda eta: eta, "exp": np.exp}[case.json["link"]](scores)}
    classes, rule = np.array(case.json["classes"]), case.json["probabilities"]
    if scores.shape[1] < len(classes):
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    present = ~np.isin(classes, case.json["absent"])
    if rule["rule"] == "class-covariance":
        scores = np.zeros((len(made), len(classes)))
        for k in np.flatnonzero(present):
            mean = np.array(rule["means"][k])
            white = (made - mean) @ np.array(rule["whitenings"][k]).reshape(-1, len(mean)).T
            tail = (white**2).sum(axis=1)
            if "shape" in rule:
                tail = (1 + rule["shape"]) * rule["usual"] * np.log1p(tail / (rule["shape"] * rule["usual"]))
            scores[:, k] = rule["log_shares"][k][0] - (rule["log_dets"][k][0] + tail) / 2
    scores = np.where(present, scores, -np.inf)
    label = classes[scores.argmax(axis=1)]
    if rule["rule"] == "softmax":
        odds = np.exp((scores - scores.max(axis=1, keepdims=True)) / rule["temperature"])
        return {"label": label, "probabilities": odds / odds.sum(axis=1, keepdims=True)}
    if rule["rule"] in ("row-temperature", "class-covariance"):
        heat = rule["temperature"]
        if "centre" in rule:
            centre = np.array(rule["centre"])
            white = (made - centre) @ np.array(rule["whitening"]).reshape(-1, len(centre)).T
            shares = np.array([np.nan if v is None else v for v in rule["log_shares"]])
            nearest = (white**2).sum(axis=1) - 2 * np.nanmax(np.where(present, scores - shares, np.nan), axis=1)
            far = np.maximum(nearest, 0) / rule["usual"]
            heat = (heat * (rule["shape"] + far) / (rule["shape"] + 1))[:, None]
        odds = np.exp((scores - scores.max(axis=1, keepdims=True)) / heat)
        odds = (1 - rule["floor"]) * odds / odds.sum(axis=1, keepdims=True)
        return {"label": label, "probabilities": odds + np.where(present, rule["floor"] / present.sum(), 0)}
    assert rule["rule"] == "clip"
    odds = np.clip(scores, 0, 1)
    odds[odds.sum(axis=1) <= 0] = present
    return {"label": label, "probabilities": odds / odds.sum(axis=1, keepdims=True)}


def test_numpy_reaches_the_same_answers_with_the_bare_weights(cases):
    for name, case in cases.items():
        weights, _ = tensors(case)
        made = columns(case, weights)
        scores = made @ weights["coef"].T + weights.get("intercept", 0.0)
        # NumPy takes other ways to the same columns (distances, the recursion of splines).
        assert compare(case, conclude(case, scores, made)) <= 1e-7, name


def test_json_and_safetensors_hold_the_same_numbers(cases):
    for case in cases.values():
        weights, facts = tensors(case)
        coef = np.atleast_2d(case.json["coef"])
        assert (coef == weights.pop("coef")).all()
        assert coef.shape[1] == len(case.json["features"])
        intercept = case.json["intercept"]
        if intercept is None:
            assert "intercept" not in weights
        else:
            assert (np.atleast_1d(intercept) == weights.pop("intercept")).all()
        assert {f"basis.{key}" for key in case.json["map"]} == weights.keys()
        for key, value in case.json["map"].items():
            assert (np.array(value) == weights[f"basis.{key}"]).all()
        assert facts["format"] == case.json["format"] == "pmfcl-model"
        for key in ("inputs", "features", "targets", "classes", "absent", "probabilities"):
            assert (key in facts) == (key in case.json)
            assert key not in facts or json.loads(facts[key]) == case.json[key]
        for key in ("name", "loss", "basis", "producer", "link"):
            assert facts.get(key) == case.json.get(key)
        assert ("link" in facts) == ("targets" in facts)


def test_losses_are_named_with_their_parameters(cases):
    """What the first task settled is named too: the cap of poisson."""
    for name, case in cases.items():
        loss, _, parameter = case.json["loss"].partition(":")
        if "huber-1" in name:
            assert (loss, parameter) == ("huber", "1.5")
        elif "poisson-1" in name:
            assert loss == "poisson" and float(parameter) > 2
        elif loss in ("squared", "gaussian", "logistic"):
            assert parameter == ""
