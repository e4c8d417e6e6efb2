"""Users and a decision maker who react to each other: what retraining makes of the theorem."""

from __future__ import annotations

import math
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from strategic_tools import LOSSES, PARAMS, cell_means, clear_family, opened, plain, protected

import pucboost as puc
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, best_response, play

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
