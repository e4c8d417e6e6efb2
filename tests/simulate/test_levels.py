"""Ordered consent in simulations: the truth, people who react, and tables."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import pucboost as puc
from pucboost.simulate import DiscreteFamily, best_response, play, withhold_sigmoid


def test_nested_families_share_one_after_the_other() -> None:
    family = DiscreteFamily.random(1, 3, seed=0, nested=True)
    assert family.is_nested
    assert family.optional == {"z": puc.Levels([1], [2], [3])}
    available = family.sample(2_000, seed=0).available
    assert set(map(tuple, available.astype(int).tolist())) == {(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)}
    free = DiscreteFamily.random(1, 3, seed=0)
    assert not free.is_nested
    assert free.optional == [1, 2, 3]


def test_the_truth_of_levels_is_a_mean_over_all_who_share_at_least_as_much() -> None:
    """E[Y | b, A ⊇ a, z_a] by counting people of a large sample."""
    family = DiscreteFamily.random(1, 2, seed=1, nested=True, levels=2)
    many = family.sample(200_000, seed=0)
    assert many.Z is not None
    for level in range(3):
        row = np.full((1, 3), np.nan)
        for values in itertools.product((0.0, 1.0), repeat=1 + level):
            row[0, : 1 + level] = values
            like = (many.X[:, 0] == values[0]) & many.available[:, :level].all(axis=1)
            like &= (many.Z[:, :level] == values[1:]).all(axis=1)
            truth = family.puc_prediction(row)[0]
            assert abs(many.y[like].mean() - truth) < 4 * np.sqrt(truth * (1 - truth) / like.sum())


def test_people_choose_among_what_they_can_share() -> None:
    """The second level alone would be best for the first person, but it is not to be had."""
    X = np.array([[0.0, 3.0, -4.0], [0.0, 3.0, -1.0], [0.0, -1.0, 2.0]])
    response = best_response(lambda X: np.nan_to_num(X).sum(axis=1), X, {"z": puc.Levels([1], [2])})
    assert response.prediction.tolist() == [-1.0, 0.0, -1.0]
    assert response.shared.tolist() == [[True, True], [False, False], [True, False]]
    pairs = {f"p{j}": puc.Levels([2 * j + 1], [2 * j + 2]) for j in range(8)}
    with pytest.raises(ValueError, match="strategic users see all quotes; 6,561 are more than 4,096"):
        best_response(lambda X: X[:, 0], np.zeros((2, 17)), pairs)


def test_a_world_with_levels() -> None:
    family = DiscreteFamily.random(1, 2, seed=0, nested=True)
    params = {"objective": "binary", "optional": family.optional, "verbosity": -1, "num_threads": 1}
    world = play(lambda X, y: puc.train(params, puc.Dataset(X, y), 10), family, cohort=500, reference=500, rounds=2)
    shared = world.response.shared
    assert not (shared[:, 1] & ~shared[:, 0]).any()


@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_tables_can_be_withheld_by_levels(kind: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 4))
    X = values if kind == "numpy" else pd.DataFrame(values, columns=list("abcd"))
    columns = [1, 2, 3] if kind == "numpy" else ["b", "c", "d"]
    strength = dict.fromkeys(columns, 1.0)
    optional = {"z": puc.Levels(*([column] for column in columns))}
    plain, nested = (np.asarray(withhold_sigmoid(X, strength, 0, one)) for one in (None, optional))
    present = ~np.isnan(nested[:, 1:])
    assert (np.diff(present.astype(int), axis=1) <= 0).all()
    np.testing.assert_array_equal(present, np.cumprod(~np.isnan(plain[:, 1:]), axis=1).astype(bool))
    np.testing.assert_array_equal(nested[:, 1:][present], plain[:, 1:][present])
