"""Thresholds and intervals against a twin with loops, what they need, and where they are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from twins.intervals import adaptive, masked, shares, threshold

import pucboost as puc
from pucboost._intervals import _rounded_up, _uniforms, least_people

OPTIONAL = {"app": [1, 2], "blood": [3]}
GROUPS = [[1, 2], [3]]
SETS: list[set[int]] = [set(), {0}, {1}, {0, 1}]
NAMES = ["nothing", "app", "blood", "app + blood"]
LEVEL = 0.8
QUIET = {"verbosity": -1, "num_threads": 1, "optional": OPTIONAL}


def people(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + X[:, 1] + 2 * X[:, 3] + rng.normal(size=n) * (1 + (X[:, 0] > 0))
    X[rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 1])), 1:3] = np.nan
    X[rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 3])), 3] = np.nan
    return X, y


TRAIN, CAL, TEST = people(400, 0), people(230, 1), people(60, 2)


def outcome(y: Any, objective: str) -> Any:
    counts = np.floor(np.exp(np.clip(y, -9, 2) / 2))
    return {
        "binary": (y > 0).astype(float), "multiclass": np.digitize(y, [-1, 1]).astype(float), "poisson": counts,
        "gamma": counts + 0.5, "tweedie": counts,
    }.get(objective, y)  # fmt: skip


def fit(objective: str = "regression", **params: Any) -> Any:
    more = {"num_class": 3} if objective == "multiclass" else {}
    given = {**QUIET, "objective": objective, **more, **params}
    return puc.train(given, puc.Dataset(TRAIN[0], outcome(TRAIN[1], objective)), 20)


def told(model: Any, row: Any) -> Any:
    return np.asarray(puc.predict(model, np.array([row])))[0]


def check(found: Any, y_cal: Any, score: Any, covers: Any) -> None:
    """Compare the thresholds with the twin's, and the intervals with the sets of outcomes of small score."""
    wanted = {
        name: threshold(CAL[0], y_cal, GROUPS, some, LEVEL, score) for name, some in zip(NAMES, SETS, strict=True)
    }
    assert [one.shared for one in found.sets] == [name for name in NAMES if wanted[name] is not None]
    for one in found.sets:
        exact = wanted[one.shared]
        assert exact is not None
        assert exact <= one.threshold <= exact + 0.0101 * abs(exact)
        sharing = sum(SETS[NAMES.index(one.shared)] <= shares(row, GROUPS) for row in CAL[0])
        assert abs(one.people - sharing) <= 2
    table = found.predict_interval(TEST[0])
    kept = {one.shared: one.threshold for one in found.sets}
    for i in range(0, len(TEST[0]), 6):
        own, line = shares(TEST[0][i], GROUPS), table.iloc[i]
        assert line["based_on"] in kept
        used = SETS[NAMES.index(line["based_on"])]
        assert used == own or NAMES[SETS.index(own)] not in kept
        covers(masked(TEST[0][i], GROUPS, used), i, line, kept[line["based_on"]])


def ends(score: Any, lowest: float = -np.inf) -> Any:
    """A little within the ends scores are below the threshold, and a little beyond above."""

    def covers(row: Any, i: int, line: Any, limit: float) -> None:
        slack = 1e-6 * (1 + abs(line["upper"]))
        assert score(row, i, line["upper"] - slack) <= limit < score(row, i, line["upper"] + slack)
        if line["lower"] > lowest:
            assert score(row, i, line["lower"] + slack) <= limit < score(row, i, line["lower"] - slack)
        else:
            assert line["lower"] == lowest

    return covers


@every_engine
def test_absolute_residuals_on_every_engine(kit: EngineKit) -> None:
    params = {**kit.quiet, "engine": kit.name, "objective": kit.objectives["l2"], "optional": OPTIONAL}
    model = puc.train(params, puc.Dataset(*TRAIN), 20)

    def score(row: Any, i: int, y: float) -> float:
        return float(abs(y - told(model, row)))

    check(puc.intervals(model, *CAL, level=LEVEL), CAL[1], score, ends(score))


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie"])
def test_counts_and_amounts(objective: str) -> None:
    model, y = fit(objective), outcome(CAL[1], objective)
    power = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}[objective]

    def score(row: Any, i: int, y: float) -> float:
        f = float(told(model, row))
        return float(abs(y - f) / f ** (power / 2))

    found = puc.intervals(model, CAL[0], y, level=LEVEL)
    check(found, y, score, ends(score, 0.0))


def test_exposure() -> None:
    rng = np.random.default_rng(5)
    units, later = rng.uniform(0.2, 3, len(CAL[1])), rng.uniform(0.2, 3, len(TEST[1]))
    train = puc.Dataset(TRAIN[0], outcome(TRAIN[1], "poisson"), exposure=rng.uniform(0.2, 3, len(TRAIN[1])))
    model, y = puc.train({**QUIET, "objective": "poisson"}, train, 20), outcome(CAL[1], "poisson")

    def score_over(exposure: Any) -> Any:
        def score(row: Any, i: int, y: float) -> float:
            f = float(told(model, row))
            return float(abs(y / exposure[i] - f) * np.sqrt(exposure[i] / f))

        return score

    found = puc.intervals(model, CAL[0], y, level=LEVEL, exposure=units)
    for one in found.sets:
        exact = threshold(CAL[0], y, GROUPS, SETS[NAMES.index(one.shared)], LEVEL, score_over(units))
        assert exact is not None
        assert exact * (1 - 1e-9) <= one.threshold <= 1.0101 * exact
    table, covers = found.predict_interval(TEST[0], exposure=later), ends(score_over(later), 0.0)
    for i in range(0, len(TEST[0]), 6):
        used = SETS[NAMES.index(table["based_on"][i])]
        limit = next(one.threshold for one in found.sets if one.shared == table["based_on"][i])
        covers(masked(TEST[0][i], GROUPS, used), i, table.iloc[i], limit)
    unit = found.predict_interval(TEST[0])
    pd.testing.assert_frame_equal(unit, found.predict_interval(TEST[0], exposure=np.ones(len(TEST[1]))))
    with pytest.raises(ValueError, match="outcomes need their exposure"):
        puc.intervals(model, CAL[0], y)
    with pytest.raises(ValueError, match="trained without an exposure; leave exposure out"):
        puc.intervals(fit(), *CAL, exposure=units)


def test_residuals_over_a_model_of_their_scale() -> None:
    model = fit()
    residual = np.abs(TRAIN[1] - puc.predict(model, TRAIN[0]))
    scale = puc.train({**QUIET, "objective": "gamma"}, puc.Dataset(TRAIN[0], residual), 20)

    def score(row: Any, i: int, y: float) -> float:
        return float(abs(y - told(model, row)) / told(scale, row))

    found = puc.intervals(model, *CAL, level=LEVEL, scale=scale)
    check(found, CAL[1], score, ends(score))
    again = puc.typing.Intervals.from_json(found.to_json(), model, scale=scale)
    pd.testing.assert_frame_equal(again.predict_interval(TEST[0]), found.predict_interval(TEST[0]))


def test_two_quantiles() -> None:
    low, high = fit("quantile", alpha=0.2), fit("quantile", alpha=0.8)

    def score(row: Any, i: int, y: float) -> float:
        ends = sorted([told(low, row), told(high, row)])
        return float(max(ends[0] - y, y - ends[1]))

    found = puc.intervals((low, high), *CAL, level=LEVEL)
    check(found, CAL[1], score, ends(score))
    # Quantiles that are much too far apart move towards each other, but never past.
    found = puc.intervals((fit("quantile", alpha=0.001), fit("quantile", alpha=0.999)), *CAL, level=0.1)
    table = found.predict_interval(TEST[0])
    assert min(one.threshold for one in found.sets) < 0
    assert (table["lower"] <= table["upper"]).all()


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_sets_of_classes(objective: str, seed: int | None) -> None:
    model, y = fit(objective), outcome(CAL[1], objective)

    def uniform(p: Any) -> Any:
        return None if seed is None else _uniforms(seed, p[None])[0]

    def chances(row: Any) -> Any:
        p = np.asarray(told(model, row), dtype=np.float64)
        return p if p.ndim else np.array([1 - p, p])

    def score(row: Any, i: int, y: float) -> float:
        return adaptive(chances(row), int(y), uniform(chances(row)))

    def covers(row: Any, i: int, line: Any, limit: float) -> None:
        p = chances(row)
        for k in range(len(p)):
            assert line[str(k)] == (adaptive(p, k, uniform(p)) <= limit)
        assert line[str(int(np.argmax(p)))]

    found = puc.intervals(model, CAL[0], y, level=LEVEL, seed=seed)
    check(found, y, score, covers)
    again = puc.typing.Intervals.from_json(found.to_json(), model)
    pd.testing.assert_frame_equal(again.predict_interval(TEST[0]), found.predict_interval(TEST[0]))


def test_randomised_sets_are_smaller_and_repeatable() -> None:
    model, y = fit("multiclass"), outcome(CAL[1], "multiclass")
    plain, one, other = (puc.intervals(model, CAL[0], y, level=LEVEL, seed=seed) for seed in (None, 1, 2))
    assert one == puc.intervals(model, CAL[0], y, level=LEVEL, seed=1) != other
    chances = np.random.default_rng(0).dirichlet([1, 1, 1], 100_000)
    uniform = _uniforms(1, chances)
    assert 0 <= uniform.min() < 1e-4
    assert 1 - 1e-4 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.005
    assert np.abs(np.corrcoef([uniform, _uniforms(2, chances), *chances.T])[0, 1:]).max() < 0.015
    assert plain.score != one.score


def test_people_who_are_predicted_one_at_a_time_are_covered_as_often() -> None:
    """Else everybody would get the chance of the first row: the sets would be too small for all, or too large."""
    model = fit("multiclass")
    found = puc.intervals(model, CAL[0], outcome(CAL[1], "multiclass"), level=LEVEL, seed=1)
    alone = pd.concat([found.predict_interval(row[None]) for row in TEST[0]], ignore_index=True)
    pd.testing.assert_frame_equal(alone, found.predict_interval(TEST[0]))


def test_small_sets_get_the_largest_part_that_enough_people_share() -> None:
    """Ties go to the part that more people share."""
    X = np.full((200, 4), np.nan)
    X[:, 0] = np.arange(200)
    X[:120, 1] = X[100:170, 2] = X[110:135, 3] = 1.0
    y = X[:, 0] * 1.0
    params = {"verbosity": -1, "optional": {"a": [1], "b": [2], "c": [3]}}
    model = puc.train(params, puc.Dataset(X, y), 3)
    found = puc.intervals(model, X, y, level=0.8)
    assert {one.shared: one.people for one in found.sets} == {"nothing": 200, "a": 120, "b": 70, "c": 25, "b + c": 25}
    table = found.predict_interval(X)
    assert table["based_on"][115] == "b + c"  # shares all three; a + b has 20 people, a + c has 10
    assert table["based_on"][105] == "a"  # shares a + b
    assert table["based_on"][199] == "nothing"
    alone = X[[105]].copy()
    alone[:, 2] = np.nan
    assert found.predict_interval(alone).equals(found.predict_interval(X[[105]]))


def test_least_people_and_rounding() -> None:
    assert [least_people(level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [9, 24, 49, 99, 499]
    X = np.zeros((49, 2))
    model = puc.train({"verbosity": -1, "optional": [1]}, puc.Dataset(X, np.arange(49.0)), 1)
    assert len(puc.intervals(model, X, np.arange(49.0)).sets) == 2
    with pytest.raises(ValueError, match=r"48 calibration people, but level=0\.9 needs 49: at least 5 should lie"):
        puc.intervals(model, X[1:], np.arange(48.0))
    assert _rounded_up(np.inf) == np.inf
    for value in (0.0, 1.0, 0.123, 0.12301, 987.0001, -1.2399, 1e-12, 3.0):
        up = _rounded_up(value)
        assert value <= up <= value + 0.0101 * abs(value)
        assert up == float(f"{up:.3g}")


@pytest.mark.parametrize("container", [pl.DataFrame, pa.table, pd.DataFrame])
def test_the_caller_gets_their_own_container(container: Any) -> None:
    names = ["age", "steps", "pulse", "glucose"]
    table = container({name: CAL[0][:, j] for j, name in enumerate(names)})
    params = {**QUIET, "optional": {"app": names[1:3], "blood": names[3:]}}
    model = puc.train(params, puc.Dataset(pd.DataFrame(TRAIN[0], columns=names), TRAIN[1]), 20)
    found = puc.intervals(model, table, CAL[1], level=LEVEL)
    result = found.predict_interval(table)
    assert type(result) is type(table)
    plain = found.predict_interval(pd.DataFrame(CAL[0], columns=names))
    given = result if isinstance(result, pd.DataFrame) else result.to_pandas()
    assert given.to_dict("list") == plain.to_dict("list")
    quotes = puc.quote(model, table, intervals=found)
    assert type(quotes) is type(table)


def test_the_index_is_kept() -> None:
    model = fit()
    table = pd.DataFrame(CAL[0], index=np.arange(len(CAL[0])) + 7)
    found = puc.intervals(model, table, pd.Series(CAL[1], index=table.index), level=LEVEL)
    assert found.predict_interval(table).index.equals(table.index)


def test_quotes_with_intervals() -> None:
    model = fit()
    found = puc.intervals(model, *CAL, level=LEVEL)
    table, plain = puc.quote(model, TEST[0], intervals=found), puc.quote(model, TEST[0])
    assert table.columns.to_list() == [f"{name}{end}" for name in NAMES for end in ("", ": lower", ": upper")]
    pd.testing.assert_frame_equal(table[NAMES], plain)
    limits = {one.shared: one.threshold for one in found.sets}
    for name in NAMES:
        np.testing.assert_allclose(table[f"{name}: upper"] - plain[name], limits[name] + 0 * plain[name])
    own = found.predict_interval(TEST[0])
    row = int(np.flatnonzero(plain["app + blood"].notna())[0])
    assert own["lower"][row] == table["app + blood: lower"][row]
    some = puc.quote(model, TEST[0], subsets=["nothing"], intervals=found)
    pd.testing.assert_frame_equal(some, table[["nothing", "nothing: lower", "nothing: upper"]])
    pair = puc.intervals((fit("quantile", alpha=0.2), fit("quantile", alpha=0.8)), *CAL, level=LEVEL)
    assert puc.quote(model, TEST[0], intervals=pair).shape == (60, 12)
    with pytest.raises(ValueError, match="intervals are of another model"):
        puc.quote(fit(num_leaves=5), TEST[0], intervals=found)
    with pytest.raises(ValueError, match="not of raw scores"):
        puc.quote(model, TEST[0], intervals=found, raw_score=True)
    sets = puc.intervals(fit("binary"), CAL[0], outcome(CAL[1], "binary"), level=LEVEL)
    with pytest.raises(ValueError, match="Quotes show intervals of numbers"):
        puc.quote(fit("binary"), TEST[0], intervals=sets)


def test_quotes_of_sets_that_too_few_share_have_no_interval() -> None:
    model = fit()
    found = puc.intervals(model, CAL[0], CAL[1], level=0.95)
    assert "app + blood" not in [one.shared for one in found.sets]
    assert puc.quote(model, TEST[0], intervals=found)["app + blood: upper"].isna().all()


def test_estimators_pipelines_and_files(tmp_path: Path) -> None:
    labels = np.array(["no", "yes"])[outcome(TRAIN[1], "binary").astype(int)]
    y = np.array(["no", "yes"])[outcome(CAL[1], "binary").astype(int)]
    model = puc.PUCClassifier(optional=OPTIONAL, n_estimators=20, n_jobs=1).fit(TRAIN[0], labels)
    found = model.intervals(CAL[0], y, level=LEVEL)
    table = found.predict_interval(TEST[0])
    assert table.columns.to_list() == ["no", "yes", "based_on"]
    trees = puc.intervals(model.booster_, CAL[0], outcome(CAL[1], "binary"), level=LEVEL)
    assert trees.sets == found.sets
    found.to_json(tmp_path / "intervals.json")
    again = puc.typing.Intervals.from_json(tmp_path / "intervals.json", model)
    assert again == found
    pd.testing.assert_frame_equal(again.predict_interval(TEST[0]), table)
    model.save_model(tmp_path / "model.txt")
    loaded = puc.load_model(tmp_path / "model.txt")
    again = puc.typing.Intervals.from_json(tmp_path / "intervals.json", loaded)
    pd.testing.assert_frame_equal(again.predict_interval(TEST[0]), table)

    steps = FunctionTransformer(feature_names_out="one-to-one")
    whole = make_pipeline(steps, puc.PUCRegressor(optional=OPTIONAL, n_estimators=20, n_jobs=1)).fit(*TRAIN)
    inner = puc.intervals(whole[-1], *CAL, level=LEVEL)
    assert puc.intervals(whole, *CAL, level=LEVEL) == inner


def test_anchored_models() -> None:
    params = {**QUIET, "objective": "regression", "anchor": lambda X: np.asarray(X)[:, 0]}
    model = puc.train(params, puc.Dataset(*TRAIN), 10)
    found = puc.intervals(model, *CAL, level=LEVEL)
    exact = threshold(CAL[0], CAL[1], GROUPS, set(), LEVEL, lambda row, i, y: abs(y - row[0]))
    assert exact is not None
    assert exact <= found.sets[0].threshold <= 1.0101 * exact


def test_many_groups() -> None:
    """Of more than 64 sets, those that training has seen and single groups, and others by request."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 9))
    X[:200, 3:] = np.nan
    X[200:, 1:3] = np.nan
    model = puc.train({"verbosity": -1, "optional": list(range(1, 9))}, puc.Dataset(X, X[:, 0]), 3)
    found = puc.intervals(model, X, X[:, 0], level=LEVEL)
    assert [one.mask for one in found.sets] == sorted([0, 0b11, 0b11111100, *(1 << g for g in range(8))])
    named = puc.intervals(model, X, X[:, 0], level=LEVEL, subsets=["alone"])
    assert [one.mask for one in named.sets] == [0, *(1 << g for g in range(8))]


def test_coverage_counts_both_populations() -> None:
    model = fit()
    found = puc.intervals(model, *CAL, level=0.9)
    X, y = people(700, 4)
    table = found.coverage(X, y).set_index("shared")
    kept = {one.shared: one for one in found.sets}
    for name, some in zip(NAMES, SETS, strict=True):
        used = table["based_on"][name]
        assert used == name or name not in kept
        rows = [i for i, row in enumerate(X) if some <= shares(row, GROUPS)]
        short = np.array([masked(X[i], GROUPS, SETS[NAMES.index(used)]) for i in rows])
        covered = np.abs(y[rows] - puc.predict(model, short)) <= kept[used].threshold
        exactly = np.array([shares(X[i], GROUPS) == some for i in rows])
        assert table["people"][name] == len(rows)
        assert table["people_exactly"][name] == exactly.sum()
        assert table["coverage"][name] == pytest.approx(covered.mean())
        assert table["coverage_exactly"][name] == pytest.approx(covered[exactly].mean())
        p, n = (covered.sum() + 2) / (len(rows) + 4), len(rows) + 4
        assert table["se"][name] == pytest.approx(np.sqrt(p * (1 - p) / n))
    nobody = found.coverage(X[:1, :] * [1, np.nan, np.nan, np.nan], y[:1]).set_index("shared")
    assert nobody["people"]["blood"] == 0
    assert np.isnan(nobody["coverage"]["blood"])


def test_how_results_show_themselves() -> None:
    found = puc.intervals(fit(), *CAL, level=LEVEL)
    assert repr(found) == "<Intervals: level 0.8, 4 sets, absolute residual>"
    assert found.to_frame().columns.to_list() == ["shared", "people", "threshold", "width"]
    np.testing.assert_allclose(found.to_frame()["width"], 2 * found.to_frame()["threshold"], rtol=0.006)
    assert "<table" in found._repr_html_()
    with pytest.raises(AttributeError):
        found.level = 0.5  # type: ignore[misc]
    axes = found.plot()
    assert [text.get_text() for text in axes.get_yticklabels()][-1] == "nothing"
    many = [replace(found.sets[0], shared="glucose $x$ " * 9, mask=g, people=g) for g in range(64)]
    axes = replace(found, sets=(*many, found.sets[0])).plot()
    axes.figure.canvas.draw()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert len(names) == 20
    assert names.count("nothing") == 1
    assert max(map(len, names)) <= 50


def wrong(**given: Any) -> Any:
    X, y = CAL
    return puc.intervals(given.pop("model", None) or fit(), given.pop("X", X), given.pop("y", y), **given)


def test_errors_name_what_is_wrong() -> None:
    for level in (0, 1, 1.5, "0.9", True, None):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            wrong(level=level)
    bad = CAL[1].copy()
    bad[[7, 9]] = np.nan
    with pytest.raises(ValueError, match=r"y_cal is nan in row 7 \(2 such rows\)"):
        wrong(y=bad)
    with pytest.raises(ValueError, match=r"y_cal is -1\.0 in row 2"):
        wrong(model=fit("poisson"), y=np.where(np.arange(230) == 2, -1.0, 1.0))
    with pytest.raises(
        ValueError, match=r"y_cal is 0\.5 in row 0, which is none of the classes of the model: \[0, 1\]"
    ):
        wrong(model=fit("binary"), y=np.full(230, 0.5))
    with pytest.raises(ValueError, match="one class for each of the 230 rows"):
        wrong(model=fit("binary"), y=np.zeros(3))
    column = pd.DataFrame({"y": outcome(CAL[1], "binary")})
    assert wrong(model=fit("binary"), y=column) == wrong(model=fit("binary"), y=column["y"])
    with pytest.raises(ValueError, match="seed randomises sets of classes"):
        wrong(seed=1)
    with pytest.raises(ValueError, match="predictions are above 0: train it"):
        wrong(scale=fit())
    with pytest.raises(ValueError, match="leave it out for a model of classes"):
        wrong(model=fit("binary"), scale=fit("gamma"))
    low, high = fit("quantile", alpha=0.2), fit("quantile", alpha=0.8)
    for pair in [(high, low), (low, fit())]:
        with pytest.raises(ValueError, match="two quantile models, the lower one first"):
            wrong(model=pair)
    with pytest.raises(ValueError, match=r"a pair \(low, high\) of quantile models without scale; got 3 models"):
        wrong(model=(low, low, high))
    others = puc.train(
        {**QUIET, "objective": "quantile", "alpha": 0.8, "optional": [1]}, puc.Dataset(TRAIN[0], TRAIN[1]), 5
    )
    with pytest.raises(ValueError, match="the same columns and groups"):
        wrong(model=(low, others))
    with pytest.raises(ValueError, match="no consent schema"):
        wrong(model=puc.train({"verbosity": -1}, puc.Dataset(*TRAIN), 2))
    with pytest.raises(ValueError, match="no consent schema"):
        wrong(model=object())
    labels = puc.train(
        {**QUIET, "engine": "xgboost", "objective": "multi:softmax", "num_class": 3},
        puc.Dataset(TRAIN[0], outcome(TRAIN[1], "multiclass")),
        2,
    )
    with pytest.raises(ValueError, match=r"3 classes but predicts one number per person, .* with 'multi:softprob'"):
        wrong(model=labels, y=outcome(CAL[1], "multiclass"))


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    model = fit()
    text = puc.intervals(model, *CAL, level=LEVEL).to_json()
    load = puc.typing.Intervals.from_json
    with pytest.raises(ValueError, match=r"the text holds intervals of other models \(absolute residual\)"):
        load(text, fit(num_leaves=5))
    with pytest.raises(ValueError, match="other models"):
        load(text, (fit("quantile", alpha=0.2), fit("quantile", alpha=0.8)))
    for damaged in (
        text[:-5],
        "{}",
        text.replace('"format": 1', '"format": 2'),
        text.replace('"mask": 0', '"mask": -1'),
        text.replace('"level": 0.8', '"level": 8'),
        text.replace('"score"', '"measure"'),
        text.replace('"threshold"', '"limit"'),
        text.replace('"threshold": 2', '"threshold": 1'),
    ):
        with pytest.raises(ValueError, match="the text does not hold intervals of pucboost"):
            load(damaged, model)
    path = tmp_path / "x.json"
    path.write_text(text.replace('"mask": 0', '"mask": "a"'))
    with pytest.raises(ValueError, match=r"x\.json' does not hold intervals"):
        load(path, model)
