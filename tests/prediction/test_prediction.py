"""Quotes, bonus and sharing values against hand-made masked tables."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost as xgb
from engine_kits import KITS, LIGHTGBM, XGBOOST, EngineKit, every_engine
from tools import QUIET, make_table

import pucboost as puc
from pucboost._consent import Consent
from pucboost._prediction import predictor

GROUPS = {"app": [3, 4], "blood": [5], "history": [6]}
X, Y = make_table(900, n_optional=4)


def model(kit: EngineKit = LIGHTGBM, data: Any = X, label: Any = Y, rounds: int = 15, **params: Any) -> Any:
    return kit.fit(data, label, rounds, **{"optional": GROUPS, **params})


@cache
def fitted(kit: EngineKit = LIGHTGBM) -> Any:
    """A model that tests share and leave as it is."""
    return model(kit)


def masked(table: Any, keep: tuple[str, ...]) -> Any:
    out = np.array(table)
    for group, columns in GROUPS.items():
        if group not in keep:
            out[:, columns] = np.nan
    return out


def shares(table: Any) -> dict[str, Any]:
    return {group: ~np.isnan(table[:, columns]).all(axis=1) for group, columns in GROUPS.items()}


@every_engine
def test_quotes_are_predictions_of_hand_made_tables(kit: EngineKit, monkeypatch: Any) -> None:
    booster, has = fitted(kit), shares(X)
    for raw in (False, True):
        whole = puc.quote(booster, X, raw_score=raw)
        with monkeypatch.context() as patch:
            patch.setattr(predictor, "BATCH_BYTES", 2_000)
            pd.testing.assert_frame_equal(puc.quote(booster, X, raw_score=raw, num_threads=1), whole)
        assert list(whole.columns) == [
            "nothing", "app", "blood", "app + blood", "history", "app + history", "blood + history",
            "app + blood + history",
        ]  # fmt: skip
        for size in range(4):
            for keep in itertools.combinations(GROUPS, size):
                may = np.logical_and.reduce([has[g] for g in keep], initial=True)
                expected = np.where(may, kit.predict(booster, masked(X, keep), raw), np.nan)
                np.testing.assert_array_equal(whole[" + ".join(keep) or "nothing"].to_numpy(), expected)


def test_quotes_of_several_classes_keep_their_columns_when_nobody_shares() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    params = {"objective": "multiclass", "num_class": 3, "optional": [2], **QUIET}
    booster = puc.train(params, puc.Dataset(X, y), 2)
    X[:, 2] = np.nan
    quotes = puc.quote(booster, X, subsets=["alone"])
    assert quotes.shape == (300, 3)
    assert quotes.columns.nlevels == 2
    assert quotes.isna().all(axis=None)


def test_quotes_of_every_container_and_multiclass() -> None:
    y = Y + (X[:, 0] > 0.5)
    frame = pd.DataFrame(X, columns=list("abcdefg"), index=range(50, 950)).assign(
        k=pd.Categorical(["u", "v", None] * 300)
    )
    for kit in KITS:
        params = {"objective": kit.objectives["multiclass"], "num_class": 3}
        booster = model(kit, frame, y, 4, optional={"app": ["d", "e"], "k": ["k"]}, **params)
        quotes = puc.quote(booster, frame)
        assert quotes.shape == (900, 4 * 3)
        assert list(quotes.index) == list(frame.index)
        given = kit.predict(booster, frame)
        both = frame["k"].notna() & frame[["d", "e"]].notna().any(axis=1)
        np.testing.assert_allclose(quotes["app + k"].to_numpy()[both], given[both], rtol=1e-6)
        swapped = frame.assign(k=frame["k"].cat.set_categories(["v", "u"]))
        pd.testing.assert_frame_equal(puc.quote(booster, swapped), quotes)
    booster = fitted()
    expected = puc.quote(booster, X)
    for data in (np.asfortranarray(X), scipy.sparse.csr_matrix(X), X.tolist()):
        np.testing.assert_array_equal(puc.quote(booster, data), expected)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(puc.quote(booster, single), puc.quote(booster, single.astype(np.float64)))


def test_chosen_subsets() -> None:
    booster = fitted()
    quotes = puc.quote(booster, X, subsets=["nothing", "alone", "all_but_one", "all", ["history", "app"]])
    assert list(quotes.columns) == [
        "nothing", "app", "blood", "history", "blood + history", "app + history", "app + blood",
        "app + blood + history",
    ]  # fmt: skip


@every_engine
def test_a_person_who_shares_nothing_gets_the_same_everywhere(kit: EngineKit) -> None:
    booster = fitted(kit)
    silent = masked(X[:50], ())
    quotes = puc.quote(booster, silent)
    assert quotes.drop(columns="nothing").isna().all().all()
    for sharing in ("as_given", "withheld", "best"):
        np.testing.assert_array_equal(
            puc.predict(booster, silent, sharing=sharing, favourable="lower"), quotes["nothing"]
        )


@every_engine
def test_bonus_is_the_best_of_all_quotes(kit: EngineKit) -> None:
    booster = fitted(kit)
    quotes = puc.quote(booster, X)
    np.testing.assert_array_equal(puc.predict(booster, X), kit.predict(booster, X))
    np.testing.assert_array_equal(puc.predict(booster, X, sharing="withheld"), quotes["nothing"])
    for favourable, expected in (("lower", quotes.min(axis=1)), ("higher", quotes.max(axis=1))):
        best, used = puc.predict(booster, X, sharing="best", favourable=favourable, return_subset=True)
        np.testing.assert_array_equal(best, expected)
        # the subset that is reported gives the prediction that is reported
        for i in range(0, 900, 37):
            keep = tuple(g for g in GROUPS if used.loc[i, g])
            assert kit.predict(booster, masked(X[i : i + 1], keep))[0] == best[i]
            assert all(shares(X[i : i + 1])[g][0] for g in keep)


def test_bonus_with_many_groups_is_greedy_where_it_must_be() -> None:
    """The subset found is at least as good as all and as nothing, and no change of one group improves on it."""
    table, y = make_table(120, n_base=1, n_optional=40)
    booster = LIGHTGBM.fit(table, y, 10, optional=list(range(1, 41)))
    options = {"sharing": "best", "favourable": "lower", "max_subsets": 64, "search": "greedy"}
    best, used = puc.predict(booster, table, return_subset=True, **options)
    kept = used.to_numpy()
    shared = ~np.isnan(table[:, 1:])
    assert (best <= puc.predict(booster, table)).all()
    assert (best <= puc.predict(booster, table, sharing="withheld")).all()

    def quotes(keep: Any) -> Any:
        return booster.predict(np.column_stack([table[:, 0], np.where(keep, table[:, 1:], np.nan)]))

    assert not (kept & ~shared).any()
    np.testing.assert_array_equal(quotes(kept), best)
    for group in range(40):
        changed = kept.copy()
        changed[:, group] = shared[:, group] & ~kept[:, group]
        assert (quotes(changed) >= best).all()


@every_engine
def test_sharing_values_add_up_and_are_the_definition(kit: EngineKit) -> None:
    booster = fitted(kit)
    values = puc.sharing_value(booster, X, raw_score=True)
    total = values[["withheld", *GROUPS]].sum(axis=1)
    np.testing.assert_allclose(total, kit.predict(booster, X, raw=True), atol=1e-5)
    np.testing.assert_allclose(values["as_given"], kit.predict(booster, X, raw=True), atol=1e-6)
    has = shares(X)
    for group in GROUPS:
        assert (values[group][~has[group]] == 0).all()
    # the definition by orderings, for one person who shares all three
    i = int(np.flatnonzero(np.logical_and.reduce(list(has.values())))[0])
    quotes = {
        frozenset(() if c == "nothing" else c.split(" + ")): v
        for c, v in puc.quote(booster, X[i : i + 1], raw_score=True).iloc[0].items()
    }
    for group in GROUPS:
        gains = []
        for order in itertools.permutations(GROUPS):
            before = frozenset(order[: order.index(group)])
            gains.append(quotes[before | {group}] - quotes[before])
        assert values.loc[i, group] == pytest.approx(np.mean(gains), abs=1e-6)


def test_early_stopped_boosters_are_used_up_to_their_best_round() -> None:
    params = {**XGBOOST.params, "optional": GROUPS, "early_stopping_round": 3, "learning_rate": 0.5}
    booster = puc.train(params, puc.Dataset(X[:500], Y[:500]), 100, valid_sets=[puc.Dataset(X[500:], Y[500:])])
    best = booster[: booster.best_iteration + 1].predict(xgb.DMatrix(X))
    np.testing.assert_array_equal(puc.predict(booster, X), best)


def test_anchored_models_and_several_classes() -> None:
    anchored = model(anchor="base")
    quotes = puc.quote(anchored, X)
    np.testing.assert_array_equal(quotes["nothing"], anchored.anchor.model.predict(masked(X, ())))
    assert (puc.predict(anchored, X, sharing="best", favourable="lower") <= quotes["nothing"]).all()
    several = model(LIGHTGBM, X, Y + (X[:, 0] > 0.5), 4, objective="multiclass", num_class=3)
    with pytest.raises(ValueError, match="no single most favourable"):
        puc.predict(several, X, sharing="best", favourable="lower")


def test_bad_input() -> None:
    booster = fitted()
    wide, y = make_table(60, n_base=1, n_optional=13)
    many = puc.train({**LIGHTGBM.params, "optional": list(range(1, 14))}, puc.Dataset(wide, y), 2)
    plain = lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1)
    for call, message in (
        (lambda: puc.predict(booster, X, sharing="all"), "sharing must be 'as_given', 'withheld' or 'best'; got 'all'"),
        (lambda: puc.predict(booster, X, favourable="down"), "favourable must be 'lower' or 'higher', got 'down'"),
        (lambda: puc.predict(booster, X, search="random"), "search must be 'exact' or 'greedy'"),
        (lambda: puc.sharing_effects(booster, X, favourable="up"), "favourable must be"),
        (lambda: puc.quote(booster, X[:, :5]), "has 5 columns, but the consent schema was declared for 7"),
        (lambda: puc.quote(plain, X), "The model has no consent schema"),
        (lambda: puc.quote(booster, "table.csv"), "text or binary file"),
        (lambda: puc.quote(booster, X, subsets=[["sugar"]]), "Group 'sugar' is not in the consent schema; its groups"),
        (lambda: puc.quote(booster, X, subsets="some"), "subsets must be among 'nothing'"),
        (
            lambda: puc.predict(booster, X, sharing="best", favourable="lower", max_subsets=4),
            r"2\^3 subsets, more than max_subsets = 4",
        ),
        (lambda: puc.sharing_value(many, wide), "13 groups are more than 12"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_names_of_sets_are_unambiguous() -> None:
    for group in ("", "nothing", "a + b", "+", "+ b", "a +"):
        with pytest.raises(ValueError, match=r"A group of optional is called .*, but quotes and audits call .* so"):
            Consent({"a": (0,), group: (1,)}, ("x", "y"))
        with pytest.raises(ValueError, match="A group of optional is called"):
            Consent.declare({group: ["y"]}, ["x", "y"])
    consent = Consent({name: (j,) for j, name in enumerate(["a", " a", "a ", "++", "a+b", "+b"])}, tuple("uvwxyz"))
    names = predictor.subset_names(predictor.subset_masks(consent), consent)
    assert len(set(names)) == len(names) == 64
