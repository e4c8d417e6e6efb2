"""``calibrate_masks``: right on average for those who share exactly a mask, by a round of trees on what is missing.

Who resembles whom is estimated, so tests of the equation itself let all who share at least a mask count alike.
"""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from sklearn.linear_model import LinearRegression

import pucboost as puc
from pucboost._engines import boosters_of
from pucboost._losses import Logistic, Objective, Poisson, Softmax, SquaredError
from pucboost._tables.sources import SourceTable, row_source
from pucboost._training import calibration as module
from pucboost._training.calibration import PEOPLE_TRUSTED, MaskConstants, ScoredRows, mask_constants
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows, VirtualTable
from pucboost.simulate import DiscreteFamily

OPTIONAL = {"app": ["steps", "pulse"], "job": ["job"], "blood": ["glucose"]}
JOBS = ["baker", "nurse", "pilot"]


def people(n: int = 3_000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two groups of one column, one of them categories, and one of two columns that are partly missing on their own."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.normal(size=n) for name in ("age", "steps", "pulse", "glucose")})
    X.insert(3, "job", pd.Categorical(rng.choice(JOBS, n), categories=JOBS))
    score = X["age"] + X["steps"] + X["glucose"] / 2 + (X["job"] == "pilot")
    for columns, chance in (("steps pulse", 0.3), ("steps", 0.2), ("pulse", 0.2)):
        X.loc[rng.random(n) < chance, columns.split()] = np.nan
    for column in ("job", "glucose"):
        X.loc[rng.random(n) < 1 / (1 + np.exp(-score)), column] = np.nan
    return X, score.to_numpy() + rng.normal(size=n)


X, SCORE = people()
MEAN = np.exp(np.clip(SCORE, -3, 3) / 3)
OUTCOMES = {
    "l2": SCORE,
    "binary": (SCORE > 0).astype(float),
    "poisson": np.random.default_rng(1).poisson(MEAN).astype(float),
    "gamma": MEAN,
    "tweedie": 1.5 * np.random.default_rng(2).poisson(MEAN),
    "multiclass": np.digitize(SCORE, [-1, 1]).astype(float),
}


def train(kit: EngineKit, loss: str = "l2", strength: Any = True, rounds: int = 8, **others: Any) -> Any:
    params = {
        **kit.params,
        "objective": kit.objectives.get(loss, loss),
        "optional": OPTIONAL,
        "augmentation": "exhaustive",
        "calibrate_masks": strength,
        "num_leaves": 4,
        **({"num_class": 3} if loss == "multiclass" else {}),
        **others,
    }
    return puc.train(params, puc.Dataset(X, OUTCOMES[loss]), rounds)


AUGMENTED, _, _, SOURCE = puc.augment(X, SCORE, optional=OPTIONAL, augmentation="exhaustive")
MASKS = puc.Consent.of(OPTIONAL, row_source(X)).availability(AUGMENTED)


def residuals(model: Any, loss: str = "l2", weight: Any = None) -> np.ndarray:
    """Σ w·(f − y) / Σ w over the virtual rows of each mask, with classes as columns."""
    y = OUTCOMES[loss][SOURCE]
    y = np.eye(3)[y.astype(int)] if loss == "multiclass" else y[:, None]
    off = puc.predict(model, AUGMENTED).reshape(len(y), -1) - y
    w = np.ones(len(y)) if weight is None else weight[SOURCE]
    return np.array([np.average(off[s == MASKS], axis=0, weights=w[s == MASKS]) for s in range(8)])


@pytest.fixture
def all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everybody who shares at least a mask resemble those who share exactly it."""
    monkeypatch.setattr(module, "_resemblance", lambda virtual, rows, seed: np.ones(len(virtual)))


@pytest.mark.usefixtures("all_alike")
@every_engine
@pytest.mark.parametrize("loss", OUTCOMES)
def test_residuals_of_every_mask_add_up_to_nothing(kit: EngineKit, loss: str) -> None:
    """But for shrinkage, which is weak here: every mask has hundreds of people, and eight small trees are far off."""
    before, after = residuals(train(kit, loss, False), loss), residuals(train(kit, loss), loss)
    assert np.abs(after).max() < 0.25 * np.abs(before).max()


@pytest.mark.usefixtures("all_alike")
@every_engine
def test_weights_and_exposures_count(kit: EngineKit) -> None:
    """With an exposure e the book is Σ (e·f − y), with w = e."""
    exposure = np.random.default_rng(3).uniform(0.2, 3, len(X))
    params = {
        **kit.params,
        "objective": kit.objectives["poisson"],
        "optional": OPTIONAL,
        "augmentation": "exhaustive",
        "num_leaves": 4,
    }
    total = OUTCOMES["poisson"] * exposure
    data = puc.Dataset(X, total, exposure=exposure)
    before, after = (
        residuals(puc.train({**params, "calibrate_masks": flag}, data, 8), "poisson", exposure) for flag in (0, 1)
    )
    assert np.abs(after).max() < 0.25 * np.abs(before).max()


@every_engine
def test_the_trees_before_are_the_same_and_a_strength_scales_what_is_added(kit: EngineKit) -> None:
    plain, half, whole = (raw(train(kit, strength=s)) for s in (False, 0.5, True))
    assert np.abs(whole - plain).max() > 0.05
    np.testing.assert_allclose(half - plain, (whole - plain) / 2, atol=1e-5)


def raw(booster: Any, table: Any = AUGMENTED) -> np.ndarray:
    return boosters_of(booster).predict(booster, numbers(table), raw_score=True)


def numbers(table: Any) -> np.ndarray:
    return row_source(table).window(0, len(table))


@every_engine
def test_one_constant_per_mask_whatever_is_missing_within_a_group(kit: EngineKit) -> None:
    """A group counts as shared as ``Consent.availability`` says: if at least one of its columns has a value."""
    others, _ = people(1_000, seed=9)
    if kit is LIGHTGBM:  # XGBoost refuses infinite values
        others.loc[:99, "steps"], others.loc[100:199, "glucose"] = np.inf, -np.inf
    plain, calibrated = train(kit, strength=False), train(kit)
    added, masks = raw(calibrated, others) - raw(plain, others), plain.consent.availability(others)
    means = [added[masks == s].mean() for s in range(8)]
    np.testing.assert_allclose(added, np.array(means)[masks.astype(int)], atol=1e-5)
    assert len(set(np.round(means, 4))) > 4


def test_zeros_that_are_missing_are_missing() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2_000, 2))
    y = Z.sum(axis=1)
    Z[rng.random(2_000) < 1 / (1 + np.exp(-y)), 1] = 0.0
    params = {**LIGHTGBM.params, "objective": "l2", "optional": [1], "zero_as_missing": True, "num_leaves": 3}
    plain, calibrated = (puc.train({**params, "calibrate_masks": flag}, (Z, y), 3) for flag in (False, True))
    added = calibrated.predict(Z) - plain.predict(Z)
    assert len(set(np.round(added[Z[:, 1] == 0], 9))) == len(set(np.round(added[Z[:, 1] != 0], 9))) == 1
    assert abs(added[Z[:, 1] == 0][0] - added[Z[:, 1] != 0][0]) > 0.01


@every_engine
def test_rounds_after_the_best_are_dropped_and_the_constants_are_those_of_the_best(kit: EngineKit) -> None:
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "early_stopping_round": 3}
    others = puc.Dataset(*people(300, seed=5))
    plain, calibrated = (
        puc.train({**params, "calibrate_masks": flag, "learning_rate": 0.8}, (X, SCORE), 60, [others])
        for flag in (False, True)
    )
    boosters = boosters_of(plain)
    best = boosters.facts(plain).best_round
    assert best is not None
    assert best < 50
    facts = boosters.facts(calibrated)
    assert facts.rounds == facts.used_rounds == best + 1
    added = raw(calibrated, X) - boosters.predict(plain, numbers(X), raw_score=True)
    assert len(set(np.round(added, 4))) <= 8
    np.testing.assert_array_equal(puc.predict(calibrated, X), np.asarray(kit.predict(calibrated, X)))


@every_engine
def test_files_copies_explanations_and_quotes_know_the_round(kit: EngineKit, tmp_path: Path) -> None:
    booster = train(kit, "binary", rounds=5)
    assert booster.puc_summary.mask_calibration == 1.0
    path = tmp_path / ("model.json" if kit is XGBOOST else "model.txt")
    puc.save_model(booster, path)
    told = puc.predict(booster, X)
    for again in (puc.load_model(path), pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster)):
        assert again.puc_summary.mask_calibration == 1.0
        np.testing.assert_array_equal(puc.predict(again, X), told)
    rows, n_trees = numbers(X)[:100], 6
    if kit is not XGBOOST:
        plain: Any = lgb.Booster(model_file=path)
        assert len(booster.dump_model()["tree_info"]) == plain.num_trees() == n_trees
        assert len(booster.trees_to_dataframe()["tree_index"].unique()) == n_trees
        shares, scores = (plain.predict(rows, **{kind: True}) for kind in ("pred_contrib", "raw_score"))
    else:
        plain = xgb.Booster(model_file=path)
        matrix = xgb.DMatrix(rows, feature_names=plain.feature_names, feature_types=plain.feature_types)
        assert len(plain.get_dump(with_stats=True)) == len(plain.trees_to_dataframe()["Tree"].unique()) == n_trees
        shares, scores = (plain.predict(matrix, **{kind: True}) for kind in ("pred_contribs", "output_margin"))
    np.testing.assert_allclose(shares.sum(axis=1), scores, atol=1e-5)
    np.testing.assert_allclose(scores, raw(booster, X)[:100])
    forest = boosters_of(booster).trees(booster)
    assert forest is not None
    assert len(forest.output) == n_trees
    quotes = puc.quote(booster, X.head(400))
    for name, shown in (("nothing", []), ("job + blood", ["job", "glucose"])):
        hidden = X.head(400).copy()
        hidden.loc[:, [c for c in X.columns[1:] if c not in shown]] = np.nan
        can = quotes[name].notna()
        np.testing.assert_array_equal(quotes[name][can], puc.predict(booster, hidden)[can])


@pytest.mark.usefixtures("all_alike")
@every_engine
def test_a_continued_model_keeps_its_constants_and_gets_new_ones(kit: EngineKit) -> None:
    first = train(kit, rounds=3)
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "num_leaves": 4}
    params |= {"augmentation": "exhaustive", "calibrate_masks": True}
    more = puc.train(params, (X, SCORE), 4, init_model=first)
    assert boosters_of(more).facts(more).rounds == 3 + 1 + 4 + 1
    assert np.abs(residuals(more)).max() < 0.1
    without = puc.train({**params, "calibrate_masks": False}, (X, SCORE), 4, init_model=first)
    assert boosters_of(without).facts(without).rounds == 3 + 1 + 4
    assert without.puc_summary.mask_calibration == 0


@pytest.mark.usefixtures("all_alike")
@every_engine
def test_refitting_makes_the_constants_again(kit: EngineKit) -> None:
    booster = train(kit, rounds=6, strength=0.9)
    again = puc.refit(booster, X, SCORE + 2)
    assert boosters_of(again).facts(again).rounds == 7
    assert again.puc_summary.mask_calibration == 0.9
    assert np.abs(residuals(again) - 2).max() < 0.3


@pytest.mark.usefixtures("all_alike")
@every_engine
def test_people_who_share_nothing_keep_their_anchor(kit: EngineKit) -> None:
    anchor = LinearRegression().fit(X[["age"]].to_numpy(), SCORE)
    model = train(kit, anchor=anchor)
    off = residuals(model)
    assert np.abs(off[1:]).max() < 0.25 * np.abs(residuals(train(kit, strength=False, anchor=anchor))[1:]).max()
    nothing = MASKS == 0
    expected = anchor.predict(AUGMENTED.loc[nothing, ["age"]].to_numpy())
    np.testing.assert_array_equal(puc.predict(model, AUGMENTED[nothing]), expected)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"calibrate_masks": 2}, "calibrate_masks must be True, False or a strength from 0"),
    ({"calibrate_masks": "yes"}, "got 'yes'"),
    ({"objective": "quantile"}, "calibrate_masks with objective 'quantile': constants make the mean"),
    ({"objective": lambda s, d: (s, s)}, "calibrate_masks with this objective"),
    ({"objective": "l1"}, "calibrate_masks with this objective"),
    ({"augmentation": "none"}, "people as they are tell what silence says"),
    ({"anchor": "base", "anchor_strength": 1.0}, "calibrate_masks with anchor_strength"),
    ({"compact": True}, "calibrate_masks with compact"),
    ({"interaction_constraints": [["age", "glucose"]]}, "its tree combines all groups"),
    ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "a forest predicts the mean of its trees"),
    ({"engine": "xgboost", "multi_strategy": "multi_output_tree"}, "multi_output_tree"),
]


def test_what_cannot_be_calibrated_is_refused_by_name() -> None:
    given = {"optional": OPTIONAL, "calibrate_masks": True, "verbosity": -1, "objective": "l2"}
    for params, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            puc.train({**given, **params}, (X, SCORE), 2)
    with pytest.raises(ValueError, match="with keep_training_booster: the calibration comes after the last round"):
        puc.train(given, (X, SCORE), 2, keep_training_booster=True)
    with pytest.raises(ValueError, match="calibrate_masks is not supported by cv"):
        puc.cv(given, puc.Dataset(X, SCORE), 2, stratified=False)
    without = {name: value for name, value in given.items() if name != "optional"}
    assert puc.train(without, (X, SCORE), 2).num_trees() == 2  # nothing optional is nothing to calibrate


def test_estimators_take_it() -> None:
    model = puc.PUCRegressor(optional=OPTIONAL, n_estimators=5, num_leaves=4, calibrate_masks=True, n_jobs=1)
    model.fit(X, SCORE)
    assert model.booster_.puc_summary.mask_calibration == 1.0
    assert model.best_iteration_ == 6


# ----- who resembles whom, against the truth


FAMILY = DiscreteFamily.random(2, 3, seed=4)
TRAIN, OTHERS = FAMILY.sample(20_000, seed=0), FAMILY.sample(50_000, seed=1)
FAMILY_PARAMS = {"optional": FAMILY.optional, "num_leaves": 4}


def penalties(model: Any) -> np.ndarray:
    """Return by how much those who share exactly each set are told too much."""
    off = puc.predict(model, OTHERS.X) - FAMILY.puc_prediction(OTHERS.X)
    sets = OTHERS.available @ [1, 2, 4]
    return np.array([off[sets == s].mean() for s in range(8)])


@every_engine
def test_those_who_share_exactly_a_set_are_told_what_is_justified(kit: EngineKit, monkeypatch: Any) -> None:
    """On average, and closer than if all who share at least the set counted alike."""
    params = {**kit.params, **FAMILY_PARAMS, "objective": kit.objectives["binary"]}
    found = []
    for strength in (False, True, True):
        if len(found) == 2:
            monkeypatch.setattr(module, "_resemblance", lambda virtual, rows, seed: np.ones(len(virtual)))
        model = puc.train({**params, "calibrate_masks": strength}, (TRAIN.X, TRAIN.y), 20)
        found.append(float(np.sqrt(np.mean(penalties(model) ** 2))))
    before, after, alike = found
    assert after < 0.5 * before
    assert after < 0.8 * alike


def resembling(X: np.ndarray, optional: Any, seed: int = 0) -> tuple[ScoredRows, np.ndarray]:
    """Return the virtual rows of a table, and who resembles whom."""
    consent = puc.Consent.declare(optional, [f"x{j}" for j in range(X.shape[1])])
    plan = plan_masks(consent.availability(X), "exhaustive")
    virtual = VirtualTable(
        MaskedRows(row_source(X), consent, plan), SourceTable.of(row_source(X), np.zeros(len(X)), None, name="a table")
    )
    person, masks = plan.rows_and_masks(0, len(plan), 1)
    rows = ScoredRows(np.zeros((len(plan), 1)), np.zeros((len(plan), 1)), np.ones(len(plan)), masks, person)
    return rows, module._resemblance(virtual, rows, seed)


def test_resemblance_is_the_probability_of_sharing_exactly_what_is_shown() -> None:
    rows, e = resembling(TRAIN.X, FAMILY.optional)
    seen, at_least = (table.sum(axis=1) for table in FAMILY._observed)  # by cell and what is shown of each group
    shown = TRAIN.X[rows.person].copy()
    shown[:, 2:][(rows.masks[:, None] >> np.arange(3, dtype=np.uint64) & np.uint64(1)) == 0] = np.nan
    truth = FAMILY._looked_up(seen / at_least, shown[:, :2], shown[:, 2:])
    assert np.sqrt(np.mean((e - truth) ** 2)) < 0.05
    assert np.corrcoef(e, truth)[0, 1] > 0.97


def test_nobodys_own_choice_counts() -> None:
    """Silence by a coin: those who withhold must not resemble those who withhold more than those who share do."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1_500, 6))
    X[rng.random(1_500) < 0.5, 5] = np.nan
    rows, e = resembling(X, [5])
    nothing, silent = rows.masks == 0, np.isnan(X[rows.person, 5])
    difference = e[nothing & silent].mean() - e[nothing & ~silent].mean()
    assert abs(difference) < 3 * e[nothing].std() * math.sqrt(4 / 1_500)
    assert e[nothing].std() > 0.05  # the trees have learned something by heart, but of others


# ----- the constants, against a twin that follows the formulas in words, person by person


def constants_of(found: MaskConstants, masks: Any) -> Any:
    """Return the constants of masks (masks × outputs); one that nobody had gets those of its closest parent."""
    out = np.repeat(found.depths[0].constant, len(masks), axis=0)
    for depth, nodes in enumerate(found.depths):
        used = np.uint64(sum(1 << g for g in found.order[:depth]))
        for key, constant in zip(nodes.keys, nodes.constant, strict=True):
            out[masks & used == key] = constant
    return out


def virtual_rows(objective: Objective, n: int = 60, groups: int = 3, seed: int = 0) -> ScoredRows:
    """All copies of a few people, whose scores are off by an amount that depends on the mask."""
    rng = np.random.default_rng(seed)
    available = rng.integers(0, 1 << groups, n)
    pairs = [(i, s) for i, a in enumerate(available.tolist()) for s in range(1 << groups) if s & ~a == 0]
    person, masks = np.array([i for i, _ in pairs]), np.array([s for _, s in pairs], dtype=np.uint64)
    own = rng.normal(size=n)
    outcome = {"binary": own > 0, "poisson": rng.poisson(np.exp(own))}.get(objective.name, own + rng.normal(size=n))
    scores = own[person] / 2 + rng.normal(size=1 << groups)[masks.astype(int)]
    return ScoredRows(
        scores[:, None], outcome.astype(float)[person, None], rng.uniform(0.5, 2, n)[person], masks, person
    )


def naive_constant(rows: ScoredRows, objective: Objective, which: list[int]) -> float:
    """By bisection."""
    low, high = -3.0, 3.0
    if objective.link_name == "identity":
        low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(
            rows.weight[v] * (float(objective.response(rows.scores[v, 0] + middle)) - rows.outcome[v, 0]) for v in which
        )
        low, high = (low, middle) if total > 0 else (middle, high)
    return (low + high) / 2


def naive(rows: ScoredRows, objective: Objective, order: tuple[int, ...]) -> dict[int, float]:
    """Return the constant of every mask."""
    n = len(rows.masks)
    told = [float(objective.response(rows.scores[v, 0])) for v in range(n)]
    spread = [float(objective.variance(np.array(f))) for f in told]
    slope = [float(objective.slope(np.array(f))) for f in told]
    phi = sum((rows.weight[v] * (told[v] - rows.outcome[v, 0])) ** 2 for v in range(n)) / sum(
        rows.weight[v] ** 2 * spread[v] for v in range(n)
    )
    noise = [rows.weight[v] * math.sqrt(phi * spread[v]) for v in range(n)]
    least = (sum(noise) / sum(rows.weight[v] * slope[v] for v in range(n))) ** 2 / (PEOPLE_TRUSTED * len(order))
    bits = [sum(1 << g for g in order[:d]) for d in range(len(order) + 1)]
    nodes = [{int(m) & used for m in rows.masks} for used in bits]

    def members(depth: int, key: int) -> list[int]:
        return [v for v in range(n) if int(rows.masks[v]) & bits[depth] == key]

    exact = [{key: naive_constant(rows, objective, members(d, key)) for key in nodes[d]} for d in range(len(bits))]
    constant = [dict(exact[0])]
    for d in range(1, len(bits)):
        difference, variance = {}, {}
        for key in nodes[d]:
            above = key & bits[d - 1]
            difference[key] = exact[d][key] - exact[d - 1][above]
            sums = {}
            for sign, who in ((1, members(d, key)), (-1, members(d - 1, above))):
                whole = sum(rows.weight[v] * slope[v] for v in who)
                for v in who:
                    sums[rows.person[v]] = sums.get(rows.person[v], 0.0) + sign * noise[v] / whole
            variance[key] = sum(value**2 for value in sums.values())
        known = [key for key in nodes[d] if variance[key] > 1e-12]
        beyond = (sum(difference[k] ** 2 / variance[k] for k in known) - len(known)) / sum(
            1 / variance[k] for k in known
        )
        between = max(least, beyond)
        constant.append(
            {
                key: constant[d - 1][key & bits[d - 1]]
                + (between / (between + variance[key]) * difference[key] if key in known else 0.0)
                for key in nodes[d]
            }
        )
    return constant[-1]


@pytest.mark.parametrize("objective", [SquaredError(), Logistic(), Poisson()], ids=lambda one: one.name)
def test_constants_are_those_of_the_twin(objective: Objective) -> None:
    rows = virtual_rows(objective)
    found = mask_constants(rows, objective, 3)
    expected = naive(rows, objective, found.order)
    masks = np.array(sorted(expected), dtype=np.uint64)
    np.testing.assert_allclose(constants_of(found, masks)[:, 0], [expected[int(m)] for m in masks], atol=1e-7)
    assert np.ptp(constants_of(found, masks)) > 0.1


def test_with_many_people_every_mask_is_balanced() -> None:
    rows = virtual_rows(SquaredError(), n=20_000)
    found = mask_constants(rows, SquaredError(), 3)
    told = rows.scores + constants_of(found, rows.masks)
    for s in range(8):
        here = rows.masks == s
        assert abs(np.average((told - rows.outcome)[here, 0], weights=rows.weight[here])) < 0.01


def test_masks_of_few_people_stay_with_their_parents() -> None:
    """Nothing but noise: three people with one more group do not move what they are told."""
    rng = np.random.default_rng(0)
    person = np.concatenate([np.arange(5_000), np.arange(3)])
    masks = (np.arange(5_003) >= 5_000).astype(np.uint64)
    outcome = rng.normal(size=5_000)
    outcome[:3] += 2.0
    rows = ScoredRows(np.zeros((5_003, 1)), outcome[person, None], np.ones(5_003), masks, person)
    found = constants_of(mask_constants(rows, SquaredError(), 1), np.array([0, 1], dtype=np.uint64))[:, 0]
    assert abs(found[1] - found[0]) < 0.7 * outcome[:3].mean()


def test_a_set_of_fewer_than_five_people_has_no_place_in_the_tree() -> None:
    """Its leaf would tell whoever knows one of them what that person shared; a fifth person gives it one."""
    for people, places in ((4, [[0], [0]]), (5, [[0], [0, 1]])):
        person = np.concatenate([np.arange(100), np.arange(people), np.arange(people)])  # two rows each
        masks = (np.arange(len(person)) >= 100).astype(np.uint64)
        outcome = 10.0 * (np.arange(100) < people)
        rows = ScoredRows(np.zeros((len(person), 1)), outcome[person, None], np.ones(len(person)), masks, person)
        found = mask_constants(rows, SquaredError(), 1)
        assert [depth.keys.tolist() for depth in found.depths] == places
        told = constants_of(found, np.array([0, 1], dtype=np.uint64))[:, 0]
        assert (told[1] == found.depths[0].constant[0, 0]) == (people < 5)


def test_no_events_are_no_certainty() -> None:
    """Ten people without a claim, one in a hundred expected: their constant must not run off."""
    person = np.concatenate([np.arange(4_000), np.arange(10)])
    masks = (np.arange(4_010) >= 4_000).astype(np.uint64)
    outcome = (np.arange(4_000) % 100 == 50).astype(float)
    scores = np.full((4_010, 1), math.log(0.01 / 0.99))
    rows = ScoredRows(scores, outcome[person, None], np.ones(4_010), masks, person)
    found = constants_of(mask_constants(rows, Logistic(), 1), np.array([0, 1], dtype=np.uint64))[:, 0]
    assert abs(found[0]) < 0.01
    assert -0.1 < found[1] < 0.01


def test_masks_that_nobody_had_get_those_of_their_parents() -> None:
    rows = virtual_rows(SquaredError(), n=200)
    kept = rows.masks != 7
    fewer = ScoredRows(*(values[kept] for values in vars(rows).values() if values is not None))
    found = mask_constants(fewer, SquaredError(), 3)
    last = 1 << found.order[-1]
    assert (
        constants_of(found, np.array([7], dtype=np.uint64))
        == found.depths[-2].constant[found.depths[-2].keys == 7 - last]
    )


def test_classes_are_balanced_each() -> None:
    rng = np.random.default_rng(0)
    n = 6_000
    y, masks = rng.integers(0, 3, n), rng.integers(0, 2, n).astype(np.uint64)
    scores = rng.normal(size=(n, 3)) + np.where(masks[:, None] == 1, [0.5, 0.0, -1.0], 0.0)
    rows = ScoredRows(scores, np.eye(3)[y], np.ones(n), masks, np.arange(n))
    found = mask_constants(rows, Softmax(3), 1)
    told = Softmax(3).response(scores + constants_of(found, masks))
    for s in (0, 1):
        assert np.abs((told - rows.outcome)[masks == s].mean(axis=0)).max() < 0.01


def test_many_groups_are_refined_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 64)
    rng = np.random.default_rng(0)
    masks = rng.integers(0, 1 << 20, 3_000).astype(np.uint64)
    y = (masks >> np.uint64(13) & np.uint64(1)).astype(float) + rng.normal(0, 0.1, 3_000)
    rows = ScoredRows(np.zeros((3_000, 1)), y[:, None], np.ones(3_000), masks, np.arange(3_000))
    found = mask_constants(rows, SquaredError(), 20)
    assert found.order[0] == 13
    assert len(found.order) == 6
    np.testing.assert_allclose(constants_of(found, np.array([0, 1 << 13], dtype=np.uint64))[:, 0], [0, 1], atol=0.05)
