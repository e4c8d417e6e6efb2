"""What strategic users do, the paper's theorem on it, and what retraining makes of the theorem."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import pucboost as puc
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, best_response, play

PARAMS = {"objective": "binary", "learning_rate": 0.1, "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 0}
LOSSES = {
    # E[L(Y, q)] if P(Y = 1) = p
    "squared": lambda p, q: p * (1 - q) ** 2 + (1 - p) * q**2,
    "log": lambda p, q: -(p * np.log(q) + (1 - p) * np.log(1 - q)),
}


def opened(family: DiscreteFamily) -> DiscreteFamily:
    """The same people, all sharing everything: its PUC predictions are E[Y | b, z_s]."""
    return replace(family, share=np.ones_like(family.share))


def clear_family() -> DiscreteFamily:
    """One optional feature of four levels, none of them near the average: everybody knows what to do."""
    logit = np.linspace(-1, 1, 6)[:, None] + np.array([-1.5, -0.5, 0.5, 1.5])
    value = np.exp(np.linspace(-0.2, 0.2, 6)[:, None] * np.arange(4.0))
    value = np.broadcast_to((value / value.sum(axis=1, keepdims=True))[None, :, None, :], (1, 6, 4, 4))
    return DiscreteFamily(np.full((2, 3), 1 / 6), value, expit(logit), np.ones((1, 4, 2, 2)))


def states(family: DiscreteFamily) -> tuple[np.ndarray, np.ndarray]:
    """All (b, z), and their probabilities."""
    sizes = [*family.cell.shape, *family.label.shape[1:]]
    X = np.array(list(itertools.product(*map(range, sizes))), dtype=np.float64)
    z = X[:, family.n_base :].astype(int)
    cell = np.ravel_multi_index(tuple(X[:, : family.n_base].astype(int).T), family.cell.shape)
    weight = family.cell.ravel()[cell]
    for i in range(family.n_optional):
        weight = weight * family.value[i, cell, z[:, i - 1] if i else 0, z[:, i]]
    assert abs(weight.sum() - 1) < 1e-9
    return X, weight


def protected(optional: Any, **params: Any) -> Any:
    """A fit by pucboost; merged rows are quick, and trees on all of them leave no noise of sampling."""
    given = {**PARAMS, "optional": optional, "compact": True, **params}
    return lambda X, y: puc.train(given, lgb.Dataset(X, y), 80)


def plain(X: Any, y: Any) -> lgb.Booster:
    return lgb.train(PARAMS, lgb.Dataset(X, y), 80)


def cell_means(n_cells: int, levels: int) -> Any:
    """The PUC estimator for one base and one optional column of small integers: means over all who share as much."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        cell, shares = X[:, 0].astype(int), ~np.isnan(X[:, 1])
        base = np.bincount(cell, y, n_cells) / np.maximum(np.bincount(cell, minlength=n_cells), 1)
        code = (cell * levels + np.nan_to_num(X[:, 1]).astype(int))[shares]
        count = np.bincount(code, minlength=n_cells * levels)
        total = np.bincount(code, y[shares], n_cells * levels)
        # Where nobody was seen, the base quote.
        full = np.where(count > 0, total / np.maximum(count, 1), np.repeat(base, levels))

        def model(rows: np.ndarray) -> np.ndarray:
            b, z = rows[:, 0].astype(int), rows[:, 1]
            return np.where(np.isnan(z), base[b], full[b * levels + np.nan_to_num(z).astype(int)])

        return model

    return fit


# ---- the theorem, exactly


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("favourable", ["lower", "higher"])
def test_no_other_use_of_z_has_a_smaller_loss(favourable: str, loss: str) -> None:
    for seed in range(2):
        check_no_other_use(favourable, loss, seed)


def check_no_other_use(favourable: str, loss: str, seed: int) -> None:
    family = opened(DiscreteFamily.random(2, 1, seed, optional_levels=5))
    X, weight = states(family)
    base, truth = family.base_prediction(X), family.puc_prediction(X)

    def loss_of(with_z: np.ndarray) -> float:
        """Expected loss if with_z is quoted to those who share, E[Y | b] to the others, and all have reacted."""
        quotes = np.clip(with_z, 1e-6, 1 - 1e-6)
        response = best_response(
            lambda rows: np.where(np.isnan(rows[:, 2]), base, quotes), X, [2], favourable=favourable
        )
        return float(weight @ LOSSES[loss](truth, response.prediction))

    best = loss_of(truth)
    for delta in (-0.2, -0.05, -0.01, 0.01, 0.05, 0.2):
        assert loss_of(truth + delta) > best
    for kappa in (-0.5, 0, 0.5, 0.9, 0.99, 1.01, 1.1, 1.5):
        assert loss_of((1 - kappa) * base + kappa * truth) > best
    rng = np.random.default_rng(seed)
    for scale in np.geomspace(0.001, 0.5, 50):
        # Noise may leave everything as it is for those who do not share anyway, hence not strictly.
        assert loss_of(truth + scale * rng.normal(size=len(X))) >= best - 1e-15
    assert best < loss_of(base)  # the base-features model
    direction = np.minimum if favourable == "lower" else np.maximum
    assert best == pytest.approx(weight @ LOSSES[loss](truth, direction(truth, base)), abs=1e-15)


def test_the_theorem_needs_its_condition() -> None:
    """Whoever may charge the silent more than their base features justify has a smaller loss: they are worse risks."""
    family = clear_family()
    X, weight = states(family)
    base, truth = family.base_prediction(X), family.puc_prediction(X)

    def losses(surcharge: float) -> np.ndarray:
        response = best_response(lambda rows: np.where(np.isnan(rows[:, 2]), base + surcharge, truth), X, [2])
        return np.array([weight @ loss(truth, response.prediction) for loss in LOSSES.values()])

    assert (losses(0.05) < losses(0.02)).all()
    assert (losses(0.02) < losses(0)).all()


def test_strategic_sharing_says_nothing_about_the_label_beyond_b_and_z() -> None:
    """E[Y | b, z, A = 1] = E[Y | b, z] and E[Y | b] stay; it is E[Y | b, A = 0] that moves."""
    value, label = np.array([0.3, 0.3, 0.2, 0.2]), np.array([0.1, 0.3, 0.6, 0.9])
    shares = label <= value @ label
    family = DiscreteFamily(
        np.ones(1), np.tile(value, (1, 1, 4, 1)), label[None, :], np.tile(shares[None, :, None, None], (1, 1, 2, 2))
    )
    people = np.column_stack([np.zeros(4), np.arange(4.0)])
    np.testing.assert_allclose(family.puc_prediction(people[shares]), label[shares])
    silent = np.array([[0.0, np.nan]])
    np.testing.assert_allclose(family.puc_prediction(silent), value @ label)
    np.testing.assert_allclose(family.unrestricted_prediction(silent), 0.75)


def test_with_several_groups_the_theorem_does_not_hold() -> None:
    """Four coins, Y their sum: at the strategic fixed point the PUC model is worse than no optional data at all.

    Whoever hides two bad coins and shows two good ones is quoted −2, the average of all who show those two, but
    costs 0. As one group, all or nothing, the four coins are within the theorem.
    """
    coins = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    X, y = np.column_stack([np.zeros(16), coins]), coins.sum(axis=1)

    def model(rows: np.ndarray) -> np.ndarray:
        return np.nansum(rows[:, 1:], axis=1)

    menu = best_response(model, X, [1, 2, 3, 4])
    np.testing.assert_array_equal(menu.shared, coins < 0)
    for subset in itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(5)):
        # A fixed point: whoever shares at least these coins shows tails on all of them, and costs their sum on average.
        at_least = menu.shared[:, list(subset)].all(axis=1)
        assert y[at_least].mean() == -len(subset)
    bundle = best_response(model, X, {"coins": [1, 2, 3, 4]})

    def squared(prediction: np.ndarray) -> float:
        return float(np.mean((prediction - y) ** 2))

    assert squared(np.zeros(16)) == 4  # the base-features model
    assert squared(menu.prediction) == 5
    assert squared(bundle.prediction) == 2


def test_one_group_beats_a_menu_of_several() -> None:
    for seed in range(3):
        family = opened(DiscreteFamily.random(2, 3, seed, optional_levels=3))
        X, weight = states(family)
        truth = family.puc_prediction(X)
        loss = {
            name: weight @ (best_response(family.puc_prediction, X, optional).prediction - truth) ** 2
            for name, optional in {"menu": family.optional, "bundle": {"all": family.optional}}.items()
        }
        assert loss["bundle"] < 0.8 * loss["menu"]


# ---- what users do


def test_users_share_if_it_does_not_hurt() -> None:
    X = np.array([[0.0, -1.0], [0.0, 0.0], [0.0, 1.0]])
    lower = best_response(lambda rows: np.nan_to_num(rows[:, 1]), X, [1])
    assert lower.shared.tolist() == [[True], [True], [False]]
    assert lower.prediction.tolist() == [-1, 0, 0]
    assert lower.withheld.tolist() == [0, 0, 0]
    assert lower.silent.tolist() == [False, False, True]
    higher = best_response(lambda rows: np.nan_to_num(rows[:, 1]), X, [1], favourable="higher")
    assert higher.shared.tolist() == [[False], [True], [True]]
    assert higher.prediction.tolist() == [0, 0, 1]


def test_groups_are_shared_as_a_whole() -> None:
    X = pd.DataFrame({"age": [1, 2], "steps": [5, 6], "pulse": [7, 8], "blood": [-1, 1]})
    seen = []

    def model(rows: pd.DataFrame) -> np.ndarray:
        seen.append(rows)
        return rows[["steps", "pulse", "blood"]].sum(axis=1, skipna=True).to_numpy()

    response = best_response(model, X, {"app": ["steps", "pulse"], "blood": ["blood"]})
    assert response.shared.tolist() == [[False, True], [False, False]]
    assert [rows.isna().to_numpy()[0].tolist() for rows in seen] == [
        [False, True, True, True],
        [False, False, False, True],
        [False, True, True, False],
        [False, False, False, False],
    ]
    assert X.to_numpy().tolist() == [[1, 5, 7, -1], [2, 6, 8, 1]]


@pytest.mark.parametrize("kind", ["one group", "three groups", "bundle", "xgboost", "anchored"])
def test_the_bonus_system_is_the_best_response(kind: str) -> None:
    """Bit for bit: whether users decide, or the decision is automated, they are told the same, for the same subset."""
    family = DiscreteFamily.random(2, 1 if kind == "one group" else 3, seed=0)
    sample = family.sample(2_000, seed=1)
    params: dict[str, Any] = {**PARAMS, "optional": family.optional}
    params |= {"bundle": {"optional": {"all": family.optional}}, "anchored": {"anchor": "base"}}.get(kind, {})
    if kind == "xgboost":
        params |= {"engine": "xgboost"}
        params.pop("verbosity")
    model = puc.train(params, lgb.Dataset(sample.X, sample.y), 20)
    people = np.column_stack([sample.X[:, :2], sample.Z])
    for favourable, sign in (("lower", 1), ("higher", -1)):
        response = best_response(model, people, favourable=favourable)
        bonus, used = puc.predict(model, people, sharing="best", favourable=favourable, return_subset=True)
        np.testing.assert_array_equal(response.prediction, bonus)
        np.testing.assert_array_equal(response.shared, used.to_numpy())
        np.testing.assert_array_equal(response.withheld, puc.predict(model, people, sharing="withheld"))
        # Nobody is worse off for having shared.
        assert (sign * response.prediction <= sign * response.withheld).all()
        assert (sign * response.prediction <= sign * puc.predict(model, people)).all()


def test_people_choose_among_what_they_can_share() -> None:
    """The second level alone would be best for the first person, but it is not to be had."""
    X = np.array([[0.0, 3.0, -4.0], [0.0, 3.0, -1.0], [0.0, -1.0, 2.0]])
    response = best_response(lambda X: np.nan_to_num(X).sum(axis=1), X, {"z": puc.Levels([1], [2])})
    assert response.prediction.tolist() == [-1.0, 0.0, -1.0]
    assert response.shared.tolist() == [[True, True], [False, False], [True, False]]
    pairs = {f"p{j}": puc.Levels([2 * j + 1], [2 * j + 2]) for j in range(8)}
    with pytest.raises(ValueError, match="strategic users see all quotes; 6,561 are more than 4,096"):
        best_response(lambda X: X[:, 0], np.zeros((2, 17)), pairs)


def test_bad_arguments_of_best_response() -> None:
    X = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, np.nan]])

    def zero(rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    bad: list[tuple[Any, type[Exception], str]] = [
        (lambda: best_response(zero, X, [1, 2]), ValueError, "but row 1 has none in 'Column_2'"),
        (lambda: best_response(zero, X), ValueError, "the model has no consent schema: say with optional what may be"),
        (lambda: best_response(0.5, X, [1]), TypeError, r"must have predict\(X\) or be a function of X, got float"),
        (lambda: best_response(lambda X: X, X, [1]), ValueError, r"one number per row: \(2,\), got \(2, 3\)"),
        (lambda: best_response(lambda X: X[:, 1], X, [1]), ValueError, "the model's predictions must not be NaN"),
        (lambda: best_response(zero, X, [1], favourable="up"), ValueError, "favourable must be 'lower' or 'higher'"),
        (lambda: best_response(zero, np.zeros((2, 14)), list(range(1, 14))), ValueError, "13 groups are more than 12"),
        (lambda: best_response(zero, [[0.0, 1.0]], [1]), ValueError, "X must be a DataFrame or a 2-d ndarray"),
        (
            lambda: best_response(zero, X[:, :2], puc.Consent.declare([1], ["a", "b", "c"])),
            ValueError,
            "The table has 2 columns, but the consent schema was declared for 3",
        ),
    ]
    for call, error, message in bad:
        with pytest.raises(error, match=message):
            call()


# ---- retraining


@pytest.fixture(scope="module")
def world() -> Any:
    family = clear_family()
    return play(protected(family.optional), family, loss="log", seed=1)


def test_with_memory_the_game_comes_to_rest_at_the_optimum(world: Any) -> None:
    family = clear_family()
    base, truth = family.base_prediction(world.X), family.puc_prediction(world.X)
    ideal = best_response(family.puc_prediction, world.X, family.optional)
    assert world.converged
    assert world.rounds[0].changed > 0.4  # those who leave the survey
    assert all(played.changed < 0.005 for played in world.rounds[-2:])
    np.testing.assert_array_equal(world.response.shared, ideal.shared)
    silent = world.response.silent
    assert 0.4 < silent.mean() < 0.6
    # Quotes: E[Y | b, z] for sharers, E[Y | b] for the silent. 15,000 people in 24 cells: 1 or 2 points of noise.
    assert np.mean((world.response.prediction - truth)[~silent] ** 2) < 0.03**2
    assert np.mean((world.response.prediction - base)[silent] ** 2) < 0.02**2
    assert abs(np.mean((world.response.prediction - base)[silent])) < 0.01
    # A quote to the silent that is too high by chance lowers the loss, one too low raises it: near the optimum, on
    # either side, and a long way from the base-features model.
    for loss in LOSSES.values():
        reached, least, base_only = (
            float(loss(truth, q).mean()) for q in (world.response.prediction, ideal.prediction, base)
        )
        assert abs(reached - least) < 0.1 * (base_only - least)


def test_a_round_says_what_happened_in_it(world: Any) -> None:
    last, response, y = world.rounds[-1], world.response, world.y
    assert last.number == len(world.rounds)
    assert last.people == 5_000 * last.number
    assert last.loss == pytest.approx(-np.mean(np.log(np.where(y == 1, response.prediction, 1 - response.prediction))))
    assert last.quote == pytest.approx(response.prediction.mean())
    assert last.surcharge == pytest.approx(response.withheld.mean() - y.mean())
    assert abs(last.surcharge) < 0.02  # three standard errors of the two means of labels it compares
    assert last.silent == 1 - last.shared["z1"] == response.silent.mean()
    assert last.silent_quote == pytest.approx(response.withheld[response.silent].mean())
    # Who stays silent has reason to: the cost of consent.
    assert last.silent_outcome == pytest.approx(y[response.silent].mean())
    assert last.silent_outcome > last.silent_quote + 0.15
    table = world.table()
    assert table.index.tolist() == [played.number for played in world.rounds]
    assert table.loc[last.number, "shares z1"] == last.shared["z1"]
    assert table["changed"].tolist() == [played.changed for played in world.rounds]


def test_sampled_masks_and_a_random_start_end_at_the_same_decisions(world: Any) -> None:
    family = clear_family()
    other = play(protected(family.optional, compact=False), family, start=0.5, seed=1)
    assert other.converged
    assert other.rounds[0].changed == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(other.response.shared, world.response.shared)


def test_the_bonus_system_reaches_the_same_loss(world: Any) -> None:
    family = clear_family()
    bonus = play(protected(family.optional), family, bonus=True, loss="log", seed=1)
    assert bonus.converged
    assert bonus.rounds[0] == world.rounds[0]
    assert bonus.rounds[-1].loss == pytest.approx(world.rounds[-1].loss, abs=0.001)
    np.testing.assert_array_equal(bonus.response.shared, world.response.shared)


def test_without_memory_the_lured_come_and_go() -> None:
    """Trained on those who share alone, the model offers good quotes for bad values it never saw."""
    family = clear_family()
    last = play(protected(family.optional), family, memory="last", rounds=8, seed=1)
    assert not last.converged
    assert [played.people for played in last.rounds] == [5_000] * 8
    assert min(played.changed for played in last.rounds) > 0.3
    silent = [played.silent for played in last.rounds]
    assert min(silent[::2]) > 0.4
    assert max(silent[1::2]) < 0.2
    loss = [played.loss for played in last.rounds]
    assert min(loss[1::2]) > max(loss[::2]) + 0.01
    # With the bonus system bad values are in the data whatever is used of them.
    bonus = play(protected(family.optional), family, memory="last", bonus=True, rounds=8, patience=8, seed=1)
    assert max(played.changed for played in bonus.rounds[1:]) < 0.1


def test_under_a_plain_model_silence_gets_dearer() -> None:
    family = clear_family()
    read = play(plain, family, start=0.5, rounds=6, patience=6, seed=1)
    first, last = read.rounds[0], read.rounds[-1]
    surcharge = [played.surcharge for played in read.rounds]
    assert abs(surcharge[0]) < 0.03
    assert sorted(surcharge) == surcharge
    penalty = float((read.response.withheld - family.base_prediction(read.X)).mean())
    assert penalty == pytest.approx(last.surcharge, abs=0.02)  # measured without knowing the truth
    assert penalty > 0.15
    assert last.silent < first.silent - 0.1
    # It is paid for by the silent: the loss is below what is possible with the base quote for them.
    ideal = best_response(family.puc_prediction, read.X, family.optional)
    assert last.loss < np.mean((ideal.prediction - read.y) ** 2) - 0.01


@pytest.mark.parametrize("zero_is", ["bad", "good"])
def test_a_plain_model_without_memory_ends_with_nobody_silent(zero_is: str) -> None:
    """After that it knows nothing about silence: LightGBM reads NaN as 0, which may scare off or invite."""
    family = clear_family()

    def draw(n: int, seed: int) -> tuple[Any, Any]:
        sample = family.sample(n, seed)
        if zero_is == "bad":
            sample.X[:, 2] = 3 - sample.X[:, 2]
        return sample.X, sample.y

    read = play(plain, draw, [2], start=0.5, memory="last", rounds=6, patience=6, seed=1)
    assert read.rounds[1].surcharge > 0.15
    assert read.rounds[1].silent < 0.01
    later = [played.silent for played in read.rounds[2:]]
    assert max(later) < 0.01 if zero_is == "bad" else later[0] > 0.7


def test_quotes_that_are_too_bad_do_not_correct_themselves() -> None:
    """Nobody takes them. Quotes that are too good attract those who prove them wrong."""
    wrongly_silent, wrongly_sharing = [], []
    for seed in range(6):
        family = opened(DiscreteFamily.random(1, 1, seed, levels=9, optional_levels=5))
        small = play(cell_means(9, 5), family, cohort=100, rounds=60, patience=60, reference=4_000, seed=seed)
        ideal = best_response(family.puc_prediction, small.X, family.optional).shared
        wrongly_silent.append((ideal & ~small.response.shared).mean())
        wrongly_sharing.append((~ideal & small.response.shared).mean())
    assert np.mean(wrongly_silent) > 0.08
    assert np.mean(wrongly_sharing) < 0.03


def test_several_groups() -> None:
    """Who hides one bad value and shares another, good one, is quoted too little; as one group, this cannot happen."""
    family = opened(DiscreteFamily.random(2, 2, seed=0, optional_levels=3))
    common: dict[str, Any] = {"indifference": 0.02, "seed": 1}
    menu = play(protected(family.optional), family, **common)
    bundle = play(protected({"all": family.optional}), family, {"all": family.optional}, **common)
    truth, base = family.puc_prediction(menu.X), family.base_prediction(menu.X)
    for played, optional in ((menu, family.optional), (bundle, {"all": family.optional})):
        assert played.converged
        ideal = best_response(family.puc_prediction, played.X, optional)
        assert np.mean((played.response.prediction - ideal.prediction) ** 2) < 0.02**2
        assert np.mean((played.response.withheld - base) ** 2) < 0.02**2
    some = menu.response.shared.sum(axis=1) == 1
    assert some.mean() > 0.3
    assert (menu.response.prediction - truth)[some].mean() < -0.1
    excess = {n: np.mean((w.response.prediction - truth) ** 2) for n, w in (("menu", menu), ("bundle", bundle))}
    assert excess["bundle"] < 0.95 * excess["menu"] < 0.95 * np.mean((base - truth) ** 2)
    assert list(menu.rounds[-1].shared) == ["z1", "z2"]
    assert list(bundle.rounds[-1].shared) == ["all"]


def test_an_anchored_model_never_touches_the_premium_of_the_silent() -> None:
    family = clear_family()
    people = family.sample(3_000, seed=5)
    legacy = lgb.train(PARAMS, lgb.Dataset(people.X[:, :2], people.y), 20)
    played = play(protected(family.optional, anchor=legacy, compact=False), family, cohort=2_000, rounds=3, seed=1)
    np.testing.assert_array_equal(played.response.withheld, legacy.predict(played.X[:, :2]))
    assert len({r.surcharge for r in played.rounds}) == 1


def test_higher_is_the_mirror_of_lower() -> None:
    family = opened(DiscreteFamily.random(1, 1, seed=2, levels=4, optional_levels=4))

    def draw(n: int, seed: int) -> tuple[Any, Any]:
        sample = family.sample(n, seed)
        return sample.X, sample.y

    def mirrored(n: int, seed: int) -> tuple[Any, Any]:
        X, y = draw(n, seed)
        return X, -y

    for memory in ("all", "last"):
        common: dict[str, Any] = {"memory": memory, "rounds": 5, "patience": 5, "reference": 1_000, "seed": 3}
        lower = play(cell_means(4, 4), draw, [1], **common)
        higher = play(cell_means(4, 4), mirrored, [1], favourable="higher", **common)
        np.testing.assert_array_equal(lower.response.shared, higher.response.shared)
        np.testing.assert_array_equal(lower.response.prediction, -higher.response.prediction)
        assert [r.changed for r in lower.rounds] == [r.changed for r in higher.rounds]


def test_a_world_with_levels() -> None:
    family = DiscreteFamily.random(1, 2, seed=0, nested=True)
    params = {"objective": "binary", "optional": family.optional, "verbosity": -1, "num_threads": 1}
    world = play(lambda X, y: puc.train(params, puc.Dataset(X, y), 10), family, cohort=500, reference=500, rounds=2)
    shared = world.response.shared
    assert not (shared[:, 1] & ~shared[:, 0]).any()


# ---- the loop itself


def test_the_same_call_gives_the_same_world() -> None:
    family = BinaryFamily.random(2, 2, seed=0)
    common: dict[str, Any] = {"cohort": 500, "reference": 500, "rounds": 3, "patience": 3, "start": 0.7}
    one, two = (play(protected(family.optional), family, seed=4, **common) for _ in range(2))
    assert one.rounds == two.rounds
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.response.prediction, two.response.prediction)
    other = play(protected(family.optional), family, seed=5, **common)
    assert not np.array_equal(one.X, other.X)


def test_what_is_drawn_is_never_changed_and_frames_play_like_arrays() -> None:
    family = clear_family()
    drawn: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def arrays(n: int, seed: int) -> tuple[Any, Any]:
        sample = family.sample(n, seed)
        drawn.append((sample.X, sample.X.copy(), sample.y))
        sample.X.setflags(write=False)
        sample.y.setflags(write=False)
        return sample.X, sample.y

    def frames(n: int, seed: int) -> tuple[Any, Any]:
        X, y = arrays(n, seed)
        return pd.DataFrame(X.astype(int), columns=["age", "sex", "test"]), pd.Series(y)

    common: dict[str, Any] = {"cohort": 1_000, "reference": 1_000, "rounds": 3, "patience": 3}
    of_arrays = play(protected([2]), arrays, [2], **common)
    of_frames = play(protected(["test"]), frames, ["test"], **common)
    for table, before, _ in drawn:
        np.testing.assert_array_equal(table, before)
    np.testing.assert_array_equal(of_arrays.response.prediction, of_frames.response.prediction)
    assert list(of_frames.rounds[-1].shared) == ["test"]
    assert of_frames.X.dtypes.unique().tolist() == [np.dtype(int)]


def test_each_cohort_is_drawn_anew_and_seen_as_it_shares() -> None:
    family = clear_family()
    seeds, seen = [], []

    def draw(n: int, seed: int) -> tuple[Any, Any]:
        seeds.append(seed)
        return family.sample(n, seed).X, np.zeros(n)

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        seen.append((len(y), np.isnan(X[:, 2]).tolist(), X[:, 2]))
        return lambda rows: np.nan_to_num(rows[:, 2], nan=1.5)  # levels 2 and 3 stay at home

    play(fit, draw, [2], cohort=50, reference=60, rounds=3, patience=3, start=0.0, seed=9)
    assert len(set(seeds)) == 4  # the reference population and three cohorts
    assert 9 not in seeds
    assert [n for n, _, _ in seen] == [50, 100, 150]
    assert all(seen[2][1][:50])  # start=0: cohort 0 shares nothing
    assert not all(seen[2][1][50:])
    assert np.nanmax(seen[2][2]) == 1
    seen.clear()
    play(fit, draw, [2], cohort=50, reference=60, rounds=3, patience=3, bonus=True, memory="last", seed=9)
    assert [(n, any(missing)) for n, missing, _ in seen] == [(50, False)] * 3


def test_convergence_needs_patience_and_counts_what_matters() -> None:
    family = clear_family()

    def changes(silence: list[float], **arguments: Any) -> tuple[list[float], bool]:
        """Play with these quotes for silence, one per round, and 0.45 for whoever shares."""
        quotes = iter(silence)

        def fit(X: Any, y: Any) -> Any:
            quote = next(quotes)
            return lambda rows: np.where(np.isnan(rows[:, 2]), quote, 0.45)

        played = play(fit, family, cohort=10, reference=10, rounds=len(silence), **arguments)
        return [r.changed for r in played.rounds], played.converged

    fickle = [0.5, 0.4, 0.5, 0.4]
    assert changes(fickle) == ([0, 1, 1, 1], False)
    assert changes(fickle, indifference=0.04) == ([0, 1, 1, 1], False)
    assert changes(fickle, indifference=0.06) == ([0, 0], True)
    assert changes(fickle, patience=1) == ([0], True)
    # One quiet round before a change does not count towards the two after it.
    assert changes([0.5, 0.4, 0.4, 0.4, 0.4]) == ([0, 1, 0, 0], True)
    assert changes([0.5, 0.4, 0.4]) == ([0, 1, 0], False)
    # Of equal quotes people choose to share, and that is a change, too.
    assert changes([0.45, 0.45, 0.45, 0.45], start=0.0) == ([1, 0, 0], True)


def test_with_nobody_silent_there_is_no_mean_over_the_silent() -> None:
    played = play(lambda X, y: lambda rows: np.full(len(rows), 0.5), clear_family(), cohort=10, reference=10, rounds=1)
    assert played.rounds[0].silent == 0
    assert math.isnan(played.rounds[0].silent_quote)
    assert math.isnan(played.rounds[0].silent_outcome)


def test_losses() -> None:
    family = clear_family()
    common: dict[str, Any] = {"cohort": 10, "reference": 200, "rounds": 1}

    def fit(X: Any, y: Any) -> Any:
        return lambda rows: np.full(len(rows), 0.2)

    assert play(fit, family, **common).rounds[0].loss == pytest.approx(
        play(fit, family, loss=lambda y, q: (y - q) ** 2, **common).rounds[0].loss
    )
    # A certain prediction that is wrong has a large loss, not an infinite one.
    certain = play(lambda X, y: lambda rows: np.zeros(len(rows)), family, loss="log", **common)
    assert 1 < certain.rounds[0].loss < 50
    with pytest.raises(ValueError, match=r"loss='log' needs predictions in \[0, 1\]"):
        play(lambda X, y: lambda rows: np.full(len(rows), 1.5), family, loss="log", **common)
    with pytest.raises(ValueError, match=r"loss must give one number per person: \(200,\), got \(\)"):
        play(fit, family, loss=lambda y, q: np.mean(y), **common)


def test_bad_arguments_of_play() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"favourable": "better"}, "favourable must be 'lower' or 'higher', got 'better'"),
        ({"memory": "some"}, "memory must be 'all' or 'last', got 'some'"),
        ({"start": 1.5}, r"start must lie in \[0, 1\], got 1.5"),
        ({"cohort": 0}, "cohort must be at least 1, got 0"),
        ({"reference": 0}, "reference must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"tolerance": -0.1}, r"tolerance must lie in \[0, 1\], got -0.1"),
        ({"indifference": -1}, "indifference must be at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"loss": "absolute"}, "loss must be 'squared', 'log' or a function, got 'absolute'"),
        ({"optional": []}, "optional must name at least one column"),
        ({"optional": ["z9"]}, "optional names column 'z9'"),
        ({"world": 3}, "world must be a Family or a function of n and seed, got int"),
        ({"world": lambda n, seed: (np.zeros((n, 1)), np.zeros(n))}, "optional is missing"),
        ({"world": lambda n, seed: ([[0.0]] * n, np.zeros(n)), "optional": [0]}, "X must be a DataFrame or a 2-d"),
        (
            {"world": lambda n, seed: (np.zeros((3, 1)), np.zeros(n)), "optional": [0], "reference": 5},
            r"world must draw 5 rows, got X of 3 and y of shape \(5,\)",
        ),
        ({"world": LogisticFamily.paper()}, "a LogisticFamily defines optional values only where they are shared"),
    ]
    for arguments, message in bad:
        given: dict[str, Any] = {"world": clear_family(), "cohort": 10, "reference": 10, **arguments}
        with pytest.raises(ValueError, match=message):
            play(lambda X, y: lambda rows: np.zeros(len(rows)), **given)
