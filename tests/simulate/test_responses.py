"""What strategic users do, and the paper's theorem on it, exactly."""

from __future__ import annotations

import itertools
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from strategic_tools import LOSSES, PARAMS, clear_family, opened, states

import pucboost as puc
from pucboost.simulate import DiscreteFamily, best_response

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
