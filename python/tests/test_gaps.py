"""Missing cells, sparse rows, codings and new columns: each equals doing the same to all rows at once."""

import numpy as np
import pmfcl
import pytest
from pmfcl import ContinualClassifier, ContinualRegressor

pd = pytest.importorskip("pandas")


@pytest.fixture
def frame(rng):
    """Numbers, whole numbers, categories and dates, all with gaps; the second column only in later rows."""
    n = 240
    X = pd.DataFrame(
        {
            "a": 50 + 3 * rng.normal(size=n),
            "b": pd.array(rng.integers(0, 9, size=n), dtype="Int64"),
            "k": rng.choice(["u", "v", "w"], size=n),
            "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, size=n), unit="D"),
        }
    )
    y = 2 * X.a + X.b.astype(float) + (X.k == "u") + rng.normal(scale=0.1, size=n)
    X.loc[rng.random(n) < 0.2, "a"] = np.nan
    X.loc[(np.arange(n) > 120) & (rng.random(n) < 0.3), "b"] = pd.NA
    X.loc[rng.random(n) < 0.15, "k"] = None
    X.loc[rng.random(n) < 0.1, "d"] = pd.NaT
    return X, y.to_numpy(dtype=float)


def numbers(X):
    """The inputs by hand, NaN where they are missing: all those of a category together."""
    days = (X.d - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    columns = [X.a.to_numpy(dtype=float), X.b.astype("Float64").to_numpy(dtype=float, na_value=np.nan)]
    columns += [np.where(X.k.isna(), np.nan, (X.k == value).astype(float)) for value in ("u", "v", "w")]
    return np.column_stack([*columns, days.to_numpy(dtype=float)])


def filled(table, means=None):
    """NaN replaced by the mean of its column."""
    return np.where(np.isnan(table), np.nanmean(table, axis=0) if means is None else means, table)


def with_indicators(table):
    """Zeros for NaN, and a column for each that has any; categories share one."""
    gaps = np.isnan(table)[:, [0, 1, 2, 5]].astype(float)
    return np.column_stack([np.nan_to_num(table), gaps])


@pytest.mark.parametrize(("way", "fill"), [("mean", filled), ("indicator", with_indicators)])
@pytest.mark.parametrize("ridge", ["auto", 0.1])
def test_gaps_of_frames_are_learned_in_any_split(frame, way, fill, ridge, tmp_path):
    X, y = frame
    by_hand = fill(numbers(X))
    expected = ContinualRegressor(ridge=ridge).fit(by_hand, y).predict(by_hand)
    pieces = [slice(0, 30), slice(30, 140), slice(140, 240)]
    for order in ([0, 1, 2], [2, 0, 1]):
        model = ContinualRegressor(ridge=ridge, missing=way)
        for at in order:
            model.partial_fit(X[pieces[at]], y[pieces[at]], task=at)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)
        model.save(tmp_path / f"{order[0]}.pmf")
        back = pmfcl.load(tmp_path / f"{order[0]}.pmf")
        assert back.missing == way
        np.testing.assert_allclose(back.predict(X), expected, rtol=1e-10)
        # A stream in pieces without names, and a task that comes and goes.
        model.partial_fit(X[:50], 3 * y[:50], task="extra")
        assert not np.allclose(model.predict(X), expected)
        np.testing.assert_allclose(model.unlearn("extra").predict(X), expected, rtol=1e-10)
        np.testing.assert_allclose(
            back.partial_fit(X[:50], y[:50], task="more").unlearn("more").predict(X), expected, rtol=1e-10
        )
    stream = ContinualRegressor(ridge=ridge, missing=way)
    for piece in pieces:
        stream.partial_fit(X[piece], y[piece])
    np.testing.assert_allclose(stream.predict(X), expected, rtol=1e-10)


def test_polars_arrow_and_arrays_miss_values_by_the_same_rule(frame):
    X, y = frame
    expected = ContinualRegressor(ridge=0.1, missing="mean").fit(X, y).predict(X)
    pa = pytest.importorskip("pyarrow")
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    np.testing.assert_allclose(
        ContinualRegressor(ridge=0.1, missing="mean").fit(arrow, y).predict(arrow), expected, rtol=1e-10
    )
    pl = pytest.importorskip("polars")
    polars = pl.from_arrow(arrow)
    np.testing.assert_allclose(
        ContinualRegressor(ridge=0.1, missing="mean").fit(polars, y).predict(polars), expected, rtol=1e-10
    )
    # An array of numbers with NaN, in two tasks, the second of which has gaps where the first has none.
    table = numbers(X)[:, [0, 1, 5]]
    model = ContinualRegressor(ridge=0.1, missing="mean")
    model.partial_fit(table[:120], y[:120], task="a").partial_fit(table[120:], y[120:], task="b")
    by_hand = filled(table)
    expected = ContinualRegressor(ridge=0.1).fit(by_hand, y).predict(by_hand)
    np.testing.assert_allclose(model.predict(table), expected, rtol=1e-10)
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="features"):
        model.predict(table[:, :2])


def test_classes_are_told_apart_with_gaps(frame):
    X, y = frame
    labels = np.where(y > np.median(y), "high", "low")
    by_hand = filled(numbers(X))
    for covariance in ("tied", "class"):
        settings = {"covariance": covariance, "calibrate": "off"}
        expected = ContinualClassifier(**settings).fit(by_hand, labels).predict_proba(by_hand)
        model = ContinualClassifier(missing="mean", **settings)
        model.partial_fit(X[:100], labels[:100], task="a").partial_fit(X[100:], labels[100:], task="b")
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-7, atol=1e-10)
    assert ContinualClassifier(missing="mean").fit(X, labels).score(X, labels) > 0.8


def test_a_gap_where_none_was_learned_is_filled_with_the_mean(frame):
    X, y = frame
    full = X.dropna()
    model = ContinualRegressor(ridge=0.1, missing="mean").fit(full, y[full.index])
    row = full[:1].assign(a=np.nan)
    expected = model.predict(full[:1].assign(a=full.a.mean()))
    np.testing.assert_allclose(model.predict(row), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="column 'a' at row 0 is missing"):
        ContinualRegressor().fit(full, y[full.index]).predict(row)


def test_rows_are_dropped_with_a_word(frame):
    X, y = frame
    there = X.notna().all(axis=1).to_numpy()
    with pytest.warns(UserWarning, match=f"{(~there).sum()} rows with missing values were dropped"):
        model = ContinualRegressor(ridge=0.1, missing="drop").fit(X, y)
    expected = ContinualRegressor(ridge=0.1).fit(X[there], y[there])
    np.testing.assert_allclose(model.predict(X[there]), expected.predict(X[there]), rtol=1e-10)
    with pytest.raises(ValueError, match="missing"):
        model.predict(X)
    without = y.copy()
    without[3] = np.nan
    with pytest.warns(UserWarning, match="1 rows without a target were dropped"):
        ContinualRegressor(missing="mean").fit(X, without)
    with pytest.raises(ValueError, match="NaN"):
        ContinualRegressor().fit(full_numbers(X), without)


def full_numbers(X):
    """Numbers without gaps."""
    return filled(numbers(X))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"missing": "mean", "basis": "poly:2"}, "linear basis|linear"),
        ({"missing": "mean", "fit_intercept": False}, "intercept"),
        ({"missing": "mean", "loss": "huber"}, "bounds"),
        ({"missing": "median"}, "'median' is none of"),
        ({"coding": "effects"}, "'effects' is none of"),
        ({"coding": "sum", "fit_intercept": False}, "intercept"),
    ],
)
def test_what_cannot_be_done_is_refused(frame, settings, told):
    X, y = frame
    with pytest.raises(ValueError, match=told):
        ContinualRegressor(**settings).fit(
            X if "missing" in settings else X.dropna(), y if "missing" in settings else y[X.dropna().index]
        )


def test_sparse_rows_are_learned_block_by_block(rng):
    sparse = pytest.importorskip("scipy.sparse")
    dense = rng.normal(size=(40_000, 7)) * (rng.random((40_000, 7)) < 0.2)
    y = dense @ np.arange(7.0) + rng.normal(size=len(dense))
    rows = sparse.csr_matrix(dense)
    expected = ContinualRegressor(n_jobs=1).fit(dense, y)
    for table in (rows, sparse.csr_array(dense), rows.tocoo(), rows.tocsc()):
        model = ContinualRegressor(n_jobs=1).fit(table, y)
        np.testing.assert_array_equal(model.predict(table), expected.predict(dense))
    model = ContinualRegressor().partial_fit(rows[:10_000], y[:10_000], task="a")
    model.partial_fit(rows[10_000:], y[10_000:], task="b")
    np.testing.assert_allclose(model.predict(rows), expected.predict(dense), rtol=1e-8, atol=1e-10)
    assert model.check(rows[:500], y[:500]).rows == 500
    labels = np.where(y > 0, "high", "low")
    plain = ContinualClassifier().fit(dense, labels)
    assert (ContinualClassifier().fit(rows, labels).predict(rows) == plain.predict(dense)).all()
    broken = rows.copy()
    broken.data[3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ContinualRegressor().fit(broken, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(rows[:, :3])
    with pytest.raises(ValueError, match="zeros of a sparse table are values"):
        ContinualRegressor(missing="mean").fit(rows, y)


def test_codings_have_the_estimates_and_errors_of_the_textbook(frame):
    X, y = frame
    X = X.dropna(subset=["a", "k"])[["a", "k"]].assign(j=lambda table: np.where(table.a > 50, "hot", "cold"))
    y = y[X.index]
    levels = {name: list(dict.fromkeys(X[name])) for name in ("k", "j")}

    def fitted(columns):
        """Least squares with standard errors, by hand."""
        A = np.column_stack([np.ones(len(y)), *columns]).astype(float)
        theta = np.linalg.lstsq(A, y, rcond=None)[0]
        sigma = ((y - A @ theta) ** 2).sum() / (len(y) - A.shape[1])
        return theta, np.sqrt(sigma * np.diag(np.linalg.inv(A.T @ A)))

    reference = [X.a]
    for name, own in levels.items():
        reference += [X[name] == level for level in own[1:]]
    theta, errors = fitted(reference)
    table = ContinualRegressor(ridge=0.0, coding="reference").fit(X, y).coefficients().set_index("name")
    named = ["(intercept)", "a"] + [f"{name}={level}" for name, own in levels.items() for level in own[1:]]
    np.testing.assert_allclose(table.loc[named, "coef"], theta, rtol=1e-8)
    np.testing.assert_allclose(table.loc[named, "std_error"], errors, rtol=1e-8)
    assert table.loc[f"k={levels['k'][0]}", "coef"] == 0
    sums = [X.a]
    for name, own in levels.items():
        sums += [(X[name] == level).astype(float) - (X[name] == own[-1]) for level in own[:-1]]
    theta, errors = fitted(sums)
    model = ContinualRegressor(ridge=0.0, coding="sum").fit(X, y)
    table = model.coefficients().set_index("name")
    named = ["(intercept)", "a"] + [f"{name}={level}" for name, own in levels.items() for level in own[:-1]]
    np.testing.assert_allclose(table.loc[named, "coef"], theta, rtol=1e-8)
    np.testing.assert_allclose(table.loc[named, "std_error"], errors, rtol=1e-8)
    assert abs(table.loc[[f"k={level}" for level in levels["k"]], "coef"].sum()) < 1e-9
    # Predictions are those of any coding, and the page says which it is.
    np.testing.assert_allclose(model.predict(X), ContinualRegressor(ridge=0.0).fit(X, y).predict(X), rtol=1e-9)
    assert "coding sum" in model.report()


def test_new_columns_have_been_zero_so_far(frame):
    X, y = frame
    X = X.dropna(subset=["a", "k"])
    y = y[X.index]
    old, new = X[:80][["a"]], X[80:][["a", "k"]].assign(w=np.arange(len(X) - 80) % 7)
    model = ContinualRegressor(ridge=0.1).partial_fit(old, y[:80], task="old")
    with pytest.raises(ValueError, match="no column 'gust'"):
        model.partial_fit(new, y[80:], task="new", new_columns=["gust"])
    model.partial_fit(new, y[80:], task="new", new_columns=["w", "k"])
    whole = pd.concat([old.assign(w=0.0), new])
    inputs = np.column_stack([whole.a, whole.w, *[(whole.k == level) for level in dict.fromkeys(new.k)]]).astype(float)
    expected = ContinualRegressor(ridge=0.1).fit(inputs, y).predict(inputs)
    np.testing.assert_allclose(model.predict(new), expected[80:], rtol=1e-10)
    with pytest.raises(ValueError, match="already"):
        model.partial_fit(new, y[80:], task="again", new_columns=["w"])


@pytest.mark.parametrize("memory", ["ledger", "compact"])
def test_new_columns_have_been_what_is_stated(frame, memory, tmp_path):
    X, y = frame
    X = X.dropna(subset=["a", "k"])
    y = y[X.index]
    rest = len(X) - 80
    old, new = X[:80][["a"]], X[80:][["a", "k"]].assign(w=np.arange(rest) % 7, day=pd.Timestamp("2024-01-01"))
    new["day"] += pd.to_timedelta(np.arange(rest) % 5, unit="D")
    stated = {"w": 3.5, "k": "before", "day": pd.Timestamp("2023-12-30")}
    whole = pd.concat([old.assign(**stated), new])
    for kind, target in ((ContinualRegressor, y), (ContinualClassifier, np.where(y > np.median(y), "high", "low"))):
        model = kind(ridge=0.1, memory=memory) if kind is ContinualRegressor else kind(memory=memory)
        model.partial_fit(old, target[:80], task="old")
        model.save(tmp_path / f"{kind.__name__}.pmf")
        model = kind.load(tmp_path / f"{kind.__name__}.pmf")
        before = model.predict(old)
        for wrong in ({"w": "x"}, {"k": 3.0}, {"day": 1.0}, {"w": np.inf}):
            with pytest.raises(ValueError, match="what it was before must be"):
                model.partial_fit(new, target[80:], task="new", new_columns=stated | wrong)
        with pytest.raises(ValueError):
            model.partial_fit(new.assign(a=np.nan), target[80:], task="new", new_columns=stated)
        np.testing.assert_array_equal(model.predict(old), before)
        model.partial_fit(new, target[80:], task="new", new_columns=stated)
        expected = kind(**model.get_params()).partial_fit(whole[:80], target[:80], task="old")
        expected.partial_fit(new, target[80:], task="new")
        if kind is ContinualRegressor:
            np.testing.assert_allclose(model.predict(whole), expected.predict(whole), rtol=1e-10)
            if memory == "ledger":
                model.unlearn("new")
                np.testing.assert_allclose(model.predict(whole[:80]), before, rtol=1e-10)
        else:
            np.testing.assert_allclose(
                model.decision_function(whole), expected.decision_function(whole), rtol=1e-8, atol=1e-8
            )


def test_rows_with_gaps_are_checked_and_removed(frame):
    X, y = frame
    model = ContinualRegressor(ridge=0.1, missing="mean").partial_fit(X[:200], y[:200], task="a")
    report = model.check(X[200:], y[200:])
    assert report.ok, report
    assert "repeat" in {finding["kind"] for finding in model.check(X[:200], y[:200]).findings}
    rest = ContinualRegressor(ridge=0.1, missing="mean").fit(X[20:200], y[20:200])
    model.unlearn("a", X[:20], y[:20])
    np.testing.assert_allclose(model.predict(X), rest.predict(X), rtol=1e-9)


def test_categories_nobody_has_any_more_are_gone(frame):
    X, y = frame
    X = X.dropna()
    y = y[X.index]
    model = ContinualRegressor(ridge=0.1).partial_fit(X[:60], y[:60], task="a")
    model.partial_fit(X[60:].assign(k="secret"), y[60:], task="b")
    assert "k=secret" in set(model.coefficients().name)
    model.unlearn("b")
    assert "k=secret" not in set(model.coefficients().name)
    np.testing.assert_allclose(
        model.predict(X[:60]), ContinualRegressor(ridge=0.1).fit(X[:60], y[:60]).predict(X[:60]), rtol=1e-9
    )
    with pytest.raises(ValueError, match="does not know"):
        model.predict(X[:1].assign(k="secret"))
    model.partial_fit(X[60:].assign(k="secret"), y[60:], task="b")


@pytest.mark.parametrize("way", ["mean", "indicator"])
def test_exports_take_gaps(frame, way):
    ort = pytest.importorskip("onnxruntime")
    X, y = frame
    labels = np.where(y > np.median(y), "high", "low")
    for model in (
        ContinualRegressor(ridge=0.1, missing=way).fit(X, y),
        ContinualClassifier(missing=way).fit(X, labels),
        ContinualClassifier(missing=way, covariance="class").fit(X, labels),
    ):
        session = ort.InferenceSession(model.export(format="onnx"), providers=["CPUExecutionProvider"])
        table = numbers(X)
        given = {"X": table[:, [0, 1, 5]], "k": X.k.fillna("").to_numpy(dtype=str).reshape(-1, 1)}
        found = session.run(None, given)
        if isinstance(model, ContinualRegressor):
            np.testing.assert_allclose(found[0].ravel(), model.predict(X), rtol=1e-9)
        else:
            np.testing.assert_allclose(found[1], model.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_texts_that_are_something_else_are_refused(rng):
    """The list that lost new users: each is refused with the column, the row, the value and what accepts it."""
    n = 300
    y = rng.normal(size=n)
    german = [f"{i},{i % 10}" for i in range(n)]
    cases = [
        (german, r"column 'k' at row 0: '0,0' is a number with a comma.*decimal=','"),
        (
            [f"customer-{i}" for i in range(n)],
            "column 'k' at row 0: 'customer-0' is one of 300 different texts.*identifier",
        ),
        ([str(i) if i % 15 else "n/k" for i in range(n)], "column 'k' at row 0: 'n/k' stands among numbers.*na_values"),
        ([f"2024-01-{i % 28 + 1:02}" for i in range(n)], "column 'k' at row 0: '2024-01-01' is a date.*to_datetime"),
    ]
    for texts, told in cases:
        frame = pd.DataFrame({"x": rng.normal(size=n), "k": texts})
        with pytest.raises(ValueError, match=told):
            ContinualRegressor().fit(frame, y)
        # What is held as categories was meant so.
        assert (
            ContinualRegressor(ridge=1.0)
            .fit(frame.assign(k=frame.k.astype("category")), y)
            .score(frame.assign(k=frame.k.astype("category")), y)
        )
    with pytest.raises(ValueError, match="numbers with a comma, such as '0,0'"):
        ContinualClassifier().fit(rng.normal(size=(n, 2)), german)
    hours = pd.DataFrame({"hour": [f"{i % 24}h" for i in range(n)]})
    model = ContinualRegressor().fit(hours, y)
    assert model.schema_ == [{"name": "hour", "kind": "category", "levels": [f"{i}h" for i in range(24)]}]
    assert model.feature_names_out_[:2] == ["hour=0h", "hour=1h"]
