"""The simulated families' truths, checked against brute force and against their own samples."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from pucboost import Levels
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, squared_puc_gap

FAMILIES = {
    "binary paper": BinaryFamily.paper,
    "binary random": lambda: BinaryFamily.random(2, 3, seed=3),
    "logistic paper": LogisticFamily.paper,
    "logistic teaser": LogisticFamily.teaser,
    "logistic random": lambda: LogisticFamily.random(2, 4, seed=4),
    "discrete r=2": lambda: DiscreteFamily.random(2, 2, seed=5, optional_levels=3),
    "discrete r=4": lambda: DiscreteFamily.random(2, 4, seed=6),
}
N = 400_000


def masked(family, sample, shared, exactly=False):
    """Rows with A ⊇ shared (or A = shared), everything optional outside `shared` erased."""
    keep = np.zeros(family.n_optional, dtype=bool)
    keep[list(shared)] = True
    rows = sample.available[:, keep].all(axis=1)
    if exactly:
        rows &= ~sample.available[:, ~keep].any(axis=1)
    X = sample.X[rows]
    X[:, family.n_base :][:, ~keep] = np.nan
    return X, sample.y[rows]


def deviations(X, y, prediction):
    """Σ(y − p) in standard errors for each cell of the features, continuous ones cut at the median."""
    code = np.zeros(len(X), dtype=np.int64)
    for column in X.T:
        present = column[~np.isnan(column)]
        if len(np.unique(present[:1000])) > 10:
            column = np.where(np.isnan(column), column, column > np.median(present))
        code = code * 5 + np.where(np.isnan(column), 4, column).astype(np.int64)
    _, cell = np.unique(code, return_inverse=True)
    variance = np.bincount(cell, prediction * (1 - prediction))
    # The normal approximation of a cell's sum wants some variance in it.
    full = variance > 20
    return np.bincount(cell, y - prediction)[full] / np.sqrt(variance[full])


def assert_calibrated(z):
    assert len(z) > 0
    # Some thousand cells in all: 5 standard errors happen by chance once in a thousand such files.
    assert np.abs(z).max() < 5
    # The mean of k squared standard normals has standard deviation √(2/k).
    assert abs(np.mean(z**2) - 1) < 5 * np.sqrt(2 / len(z))


def subsets(r):
    return [s for k in range(r + 1) for s in itertools.combinations(range(r), k)]


# ---- truths against samples


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_are_mean_labels(name):
    family = FAMILIES[name]()
    sample = family.sample(N, seed=11)
    checked = 0
    for shared in subsets(family.n_optional):
        X, y = masked(family, sample, shared)  # all who share at least as much
        assert_calibrated(deviations(X, y, family.puc_prediction(X)))
        X, y = masked(family, sample, shared, exactly=True)
        z = deviations(X, y, family.unrestricted_prediction(X))
        if len(z):
            assert_calibrated(z)
            checked += 1
    assert checked >= 2**family.n_optional - 1  # a rare mask may leave no cell large enough
    everybody, y = masked(family, sample, ())
    assert_calibrated(deviations(everybody, y, family.base_prediction(sample.X)))
    # Silence is informative: with the wrong one of the two truths all this fails by a wide margin.
    assert np.mean(deviations(everybody, y, family.unrestricted_prediction(everybody)) ** 2) > 100
    silent, y = masked(family, sample, (), exactly=True)
    assert np.mean(deviations(silent, y, family.puc_prediction(silent)) ** 2) > 20


# ---- truths against brute force


def condition(joint, base, z, exactly):
    """E[Y | …] of one row from a dict {(b, z, a, y): probability}."""
    mass = [0.0, 0.0]
    for (b, values, a, y), p in joint.items():
        if b != base:
            continue
        if all(a[i] == 1 and values[i] == z[i] if z[i] is not None else not (exactly and a[i]) for i in range(len(z))):
            mass[y] += p
    return mass[1] / (mass[0] + mass[1])


def binary_joint(f):
    def bernoulli(p, x):
        return p if x else 1 - p

    joint = {}
    for b in itertools.product((0, 1), repeat=f.n_base):
        for z, a in itertools.product(itertools.product((0, 1), repeat=f.n_optional), repeat=2):
            for y in (0, 1):
                p = bernoulli(f.prior, y)
                for j, x in enumerate(b):
                    p *= bernoulli(f.p_base[j, y], x)
                for i in range(f.n_optional):
                    p *= bernoulli(f.p_value[i, y], z[i]) * bernoulli(f.p_share[i, z[i], y], a[i])
                joint[b, z, a, y] = p
    return joint


def discrete_joint(f):
    k = f.share.shape[1]
    joint = defaultdict(float)
    for cell, b in enumerate(itertools.product(*map(range, f.cell.shape))):
        for z in itertools.product(range(k), repeat=f.n_optional):
            for a in itertools.product((0, 1), repeat=f.n_optional):
                for y in (0, 1):
                    p = f.cell[b] * (f.label[(cell, *z)] if y else 1 - f.label[(cell, *z)])
                    z_before, a_before = 0, 1
                    for i in range(f.n_optional):
                        share = f.share[i, z[i], y, a_before]
                        p *= f.value[i, cell, z_before, z[i]] * (share if a[i] else 1 - share)
                        z_before, a_before = z[i], a[i]
                    joint[b, z, a, y] += p
    return joint


def test_predictions_match_slow_enumeration():
    for family, enumerate_joint, levels, k in [
        (BinaryFamily.random(2, 2, seed=1), binary_joint, (2, 2), 2),
        (DiscreteFamily.random(2, 2, seed=2, optional_levels=3), discrete_joint, (3, 3), 3),
        (DiscreteFamily.random(1, 3, seed=3, levels=2), discrete_joint, (2,), 2),
    ]:
        joint = enumerate_joint(family)
        assert sum(joint.values()) == pytest.approx(1)
        for base in itertools.product(*map(range, levels)):
            for z in itertools.product([*range(k), None], repeat=family.n_optional):
                row = np.array([[*base, *(np.nan if v is None else v for v in z)]])
                truth = [condition(joint, base, *of) for of in ((z, False), (z, True), ((None,) * len(z), False))]
                predict = (family.puc_prediction, family.unrestricted_prediction, family.base_prediction)
                assert [one(row)[0] for one in predict] == pytest.approx(truth, abs=1e-12)


def logistic_mass(f, b, z, mask, y):
    """p(y, A = mask, z_mask' | b) where the z that are given as None are integrated out."""
    p = expit(f.w @ b + f.t) if y else 1 - expit(f.w @ b + f.t)
    for i in range(f.n_optional):
        s = expit(f.U[i] @ b + f.lam[i])
        normaliser = f.sharing / max(s, 1 - s)
        share = normaliser * s if y else normaliser - normaliser * s
        p *= share if mask[i] else 1 - share
        if z[i] is not None:
            p *= norm.pdf(z[i], f.V[i] @ b + (f.tau1 if y else f.tau0)[i], f.eta)
    return p


def test_logistic_predictions_match_the_densities():
    for seed in range(3):
        plain = LogisticFamily.random(2, 3, seed)
        family = LogisticFamily(
            plain.w, 0.3, plain.U, plain.V, plain.lam, plain.tau0, plain.tau1 + 0.2, eta=0.7, sharing=0.8
        )
        X = family.sample(30, seed).X
        puc, unrestricted = family.puc_prediction(X), family.unrestricted_prediction(X)
        for row, f_puc, f_all in zip(X, puc, unrestricted, strict=True):
            b, z = row[:2], [None if np.isnan(v) else v for v in row[2:]]
            a = tuple(int(v is not None) for v in z)
            supersets = [
                m for m in itertools.product((0, 1), repeat=3) if all(x <= v for x, v in zip(a, m, strict=True))
            ]
            for prediction, masks in ((f_puc, supersets), (f_all, [a])):
                mass = [sum(logistic_mass(family, b, z, m, y) for m in masks) for y in (0, 1)]
                assert prediction == pytest.approx(mass[1] / sum(mass), rel=1e-9)


def test_base_prediction_of_the_logistic_family_is_logistic():
    family = LogisticFamily.paper()
    X = family.sample(100, seed=0).X
    np.testing.assert_allclose(family.base_prediction(X), expit(X[:, 1] - 1.5 * X[:, 0]), rtol=1e-12)


# ---- levels


def test_nested_families_share_one_after_the_other():
    family = DiscreteFamily.random(1, 3, seed=0, nested=True)
    assert family.is_nested
    assert family.optional == {"z": Levels([1], [2], [3])}
    available = family.sample(2_000, seed=0).available
    assert set(map(tuple, available.astype(int).tolist())) == {(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)}
    free = DiscreteFamily.random(1, 3, seed=0)
    assert not free.is_nested
    assert free.optional == [1, 2, 3]


def test_the_truth_of_levels_is_a_mean_over_all_who_share_at_least_as_much():
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


# ---- limits


def test_where_availability_says_nothing_both_truths_agree():
    paper = BinaryFamily.paper()
    family = BinaryFamily(0.6, paper.p_base, paper.p_value, np.full((3, 2, 2), 0.4))
    X = family.sample(500, seed=0).X
    np.testing.assert_allclose(family.unrestricted_prediction(X), family.puc_prediction(X), rtol=1e-12)
    assert np.abs(family.puc_prediction(X) - family.base_prediction(X)).max() > 0.3


def test_who_shares_everything_has_no_silence_to_read():
    for make in FAMILIES.values():
        family = make()
        sample = family.sample(5000, seed=1)
        X = sample.X[sample.available.all(axis=1)]
        assert len(X) > 20
        np.testing.assert_allclose(family.unrestricted_prediction(X), family.puc_prediction(X), rtol=1e-12)


def test_full_sharing_of_the_likelier_class_lets_silence_reveal_the_label():
    p = LogisticFamily.paper()
    family = LogisticFamily(p.w, p.t, p.U, p.V, np.array([0.7, 1.0, -1.0]), p.tau0, p.tau1, sharing=1.0)
    nan = np.nan
    X = np.array([[0, 0, 0.1, nan, 0.1], [0, 0, 0.1, 0.1, nan], [0, 0, 0.1, nan, nan]])
    # lam = 1: all of class 1 share z2; lam = -1: all of class 0 share z3; nobody withholds both.
    np.testing.assert_array_equal(family.unrestricted_prediction(X), [0.0, 1.0, nan])
    assert np.all((family.puc_prediction(X) > 0.1) & (family.puc_prediction(X) < 0.9))


def test_impossible_rows_have_no_prediction():
    family = BinaryFamily(0.5, [[0.0, 0.0]], [[0.0, 0.5]], np.ones((1, 2, 2)))
    X = np.array([[1, 0], [0, 1], [0, 0], [0, np.nan]])
    np.testing.assert_allclose(family.unrestricted_prediction(X), [np.nan, 1.0, 1 / 3, np.nan])
    discrete = DiscreteFamily([0.0, 1.0], np.full((1, 2, 2, 2), 0.5), np.full((2, 2), 0.3), np.full((1, 2, 2, 2), 0.5))
    np.testing.assert_allclose(discrete.puc_prediction([[0, 0], [1, 0]]), [np.nan, 0.3])


def test_far_rows_do_not_overflow():
    family = LogisticFamily.paper()
    X = np.array([[1e6, -1e6, 1e6, np.nan, 3.0], [-1e6, 1e6, np.nan, -1e6, np.nan]])
    for prediction in (family.puc_prediction(X), family.unrestricted_prediction(X)):
        assert np.all((prediction >= 0) & (prediction <= 1))
    assert family.base_prediction([[20.0, 0, 0, 0, 0]])[0] == pytest.approx(np.exp(-30), rel=1e-9)


def test_many_optional_features_do_not_saturate_and_stay_informative():
    family = LogisticFamily.random(4, 24, seed=0)
    X = family.sample(4000, seed=0).X
    puc = family.puc_prediction(X)
    assert np.mean((puc > 0.02) & (puc < 0.98)) > 0.4
    assert squared_puc_gap(family.unrestricted_prediction(X), family, X) > 0.02
    assert squared_puc_gap(family.base_prediction(X), family, X) > 0.02


def test_label_effect_zero_makes_sharing_blind_to_the_label():
    blind = DiscreteFamily.random(2, 3, seed=0, label_effect=0)
    np.testing.assert_array_equal(blind.share[:, :, 0], blind.share[:, :, 1])
    sighted = DiscreteFamily.random(2, 3, seed=0)
    assert np.all(sighted.share[:, :, 0] > sighted.share[:, :, 1])
    # Dependent availability, and values that depend on their neighbour.
    assert np.all(sighted.share[..., 1] > sighted.share[..., 0])
    assert np.abs(sighted.value[1:, :, 0] - sighted.value[1:, :, 1]).min() > 0.01


# ---- samples


def test_sample_layout_and_purity():
    for make in FAMILIES.values():
        family = make()
        one, two, other = family.sample(300, seed=7), family.sample(300, seed=7), family.sample(300, seed=8)
        n, r = family.n_base, family.n_optional
        assert (one.X.shape, one.y.shape, one.available.shape) == ((300, n + r), (300,), (300, r))
        assert (one.X.dtype, one.y.dtype, one.available.dtype) == (np.float64, np.float64, np.bool_)
        np.testing.assert_array_equal(np.isnan(one.X), np.column_stack([np.zeros((300, n), bool), ~one.available]))
        assert set(one.y) == {0.0, 1.0}
        for a, b in ((one.X, two.X), (one.y, two.y)):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(one.y, other.y)
        assert family.optional == list(range(n, n + r))
        assert family.feature_names[0] == "b1"
        assert family.feature_names[n:] == [f"z{i + 1}" for i in range(r)]
        if isinstance(family, LogisticFamily):
            assert one.Z is None
        else:
            assert np.isfinite(one.Z).all()
            np.testing.assert_array_equal(one.Z[one.available], one.X[:, n:][one.available])
        assert family.sample(0, seed=0).X.shape == (0, n + r)
        assert family.puc_prediction(np.empty((0, n + r))).shape == (0,)


def test_random_families_are_pure_in_the_seed():
    for kind in (BinaryFamily, LogisticFamily, DiscreteFamily):
        X = kind.random(2, 3, seed=1).sample(200, seed=0).X
        np.testing.assert_array_equal(X, kind.random(2, 3, seed=1).sample(200, seed=0).X)
        assert not np.array_equal(X, kind.random(2, 3, seed=2).sample(200, seed=0).X, equal_nan=True)


def test_paper_parameters_show_in_the_samples():
    binary = BinaryFamily.paper().sample(N, seed=1)
    ones = {
        0: [0.090, 0.915, 0.225, 0.771, 0.202, 0.968, 0.874, 0.723],
        1: [0.141, 0.930, 0.020, 0.377, 0.347],
    }
    ones[1] += [0.322, 0.239, 0.159]
    withheld = {0: [0.920, 0.647, 0.508], 1: [0.345, 0.294, 0.207]}
    for y in (0, 1):  # 0.005 is 4 standard errors
        rows = binary.y == y
        values = np.column_stack([binary.X[rows, :5], binary.Z[rows]])
        assert values.mean(axis=0) == pytest.approx(ones[y], abs=0.005)
        assert 1 - binary.available[rows].mean(axis=0) == pytest.approx(withheld[y], abs=0.005)
    assert binary.y.mean() == pytest.approx(0.6, abs=0.005)
    logistic = LogisticFamily.paper().sample(N, seed=1)
    for y, second in ((0, 0.9 * np.exp(-1)), (1, 0.9)):
        rates = logistic.available[logistic.y == y].mean(axis=0)
        assert rates[1:] == pytest.approx([second, 0.9], abs=0.005)
    assert logistic.X[:, :2].var(axis=0) == pytest.approx([5, 5], abs=0.06)
    # By hand: −2.5 from b, then 1.1 + 0.75, 1 + 0.36, 0 + 0.12 from availability + value of z1, z2, z3.
    row = [[1.0, -1.0, 0.5, -0.3, 0.2]]
    assert LogisticFamily.paper().puc_prediction(row)[0] == pytest.approx(expit(0.83), rel=1e-12)
    teaser = LogisticFamily.teaser()
    assert teaser.puc_prediction([[1.0, -1.0, 0.5]])[0] == pytest.approx(expit(-0.65), rel=1e-12)


def test_the_joint_table_is_enumerated_once_and_only_when_needed(monkeypatch):
    calls = []
    joint = DiscreteFamily._joint
    monkeypatch.setattr(DiscreteFamily, "_joint", lambda self: calls.append(1) or joint(self))
    family = DiscreteFamily.random(2, 6, seed=0)
    X = family.sample(50, seed=0).X
    assert calls == []
    family.puc_prediction(X)
    family.unrestricted_prediction(X)
    assert calls == [1]
    assert joint(family).sum() == pytest.approx(1)


def test_squared_puc_gap():
    family = BinaryFamily.paper()
    X = family.sample(100, seed=0).X
    truth = family.puc_prediction(X)
    assert squared_puc_gap(truth, family, X) == 0
    assert squared_puc_gap(truth + np.where(np.arange(100) % 2, 0.1, -0.3), family, X) == pytest.approx(0.05)
    with pytest.raises(ValueError, match=r"prediction must have shape \(100,\), got \(99,\)"):
        squared_puc_gap(truth[:-1], family, X)
    with pytest.raises(ValueError, match="X must have at least one row"):
        squared_puc_gap([], family, X[:0])


def test_families_keep_their_own_parameters():
    w = np.array([1.0])
    one = np.ones((1, 1))
    family = LogisticFamily(w, 0.0, one, one, w, w, -w)
    w[0] = 9.0
    assert family.w[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        family.w[0] = 2.0
    with pytest.raises(AttributeError):
        family.t = 1.0


# ---- errors

B, L, D = BinaryFamily.paper(), LogisticFamily.paper(), DiscreteFamily.random(1, 2, seed=0)


ERRORS = [
    (lambda: BinaryFamily.paper(prior=1.0), r"prior must lie in \(0, 1\), got 1.0"),
    (lambda: replace(B, p_base=[[0.1, 1.2]]), r"p_base must lie in \[0, 1\], got 1.2"),
    (lambda: replace(B, p_value=[0.1, 0.2]), r"p_value must have shape \(any, 2\), got \(2,\)"),
    (lambda: replace(B, p_base=np.ones((0, 2))), r"p_base must have shape \(any, 2\), got \(0, 2\)"),
    (lambda: replace(B, p_share=B.p_share[:2]), r"p_share must have shape \(3, 2, 2\), got \(2, 2, 2\)"),
    (lambda: replace(L, U=L.U.T), r"U must have shape \(3, 2\), got \(2, 3\)"),
    (lambda: replace(L, tau0=L.tau0[:2]), r"tau0 must have shape \(3\), got \(2,\)"),
    (lambda: replace(L, w=L.w * np.nan), "w must be finite"),
    (lambda: replace(L, t=np.inf), "t must be finite, got inf"),
    (lambda: replace(L, eta=0), "eta must be positive and finite, got 0"),
    (lambda: replace(L, base_variance=-1), "base_variance must be positive"),
    (lambda: replace(L, sharing=1.1), r"sharing must lie in \(0, 1\], got 1.1"),
    (lambda: replace(D, cell=D.cell / 2), "cell must sum to 1, got 0.5"),
    (lambda: replace(D, value=D.value / 2), "value must sum to 1"),
    (lambda: replace(D, label=D.label[:2]), r"label must have shape \(3, 2, 2\), got \(2, 2, 2\)"),
    (lambda: replace(D, share=D.share - 1), r"share must lie in \[0, 1\], got -"),
    (lambda: replace(D, cell=0.5), r"cell must have shape \(any\), got \(\)"),
    (lambda: DiscreteFamily.random(2, 30, seed=0), "n_optional = 30 makes .* states, more than 16777216"),
    (lambda: DiscreteFamily.random(2, 2, seed=0, levels=0), "levels must be at least 1, got 0"),
    (lambda: DiscreteFamily.random(2, 2, seed=0, optional_levels=1), "optional_levels must be at least 2, got 1"),
    (lambda: LogisticFamily.random(0, 2, seed=0), "n_base must be at least 1, got 0"),
    (lambda: BinaryFamily.random(2, 0, seed=0), "n_optional must be at least 1, got 0"),
    (lambda: B.sample(-1, seed=0), "n must be at least 0, got -1"),
    (lambda: L.puc_prediction(np.ones((4, 3))), r"X must have 5 columns \(b1, b2, z1, z2, z3\), got shape \(4, 3\)"),
    (lambda: L.base_prediction(np.ones(5)), r"X must have 5 columns .* got shape \(5,\)"),
    (lambda: L.puc_prediction([[1, np.nan, 1, 1, 1]]), "column 'b2' must be a finite number, got nan in row 0"),
    (
        lambda: L.puc_prediction([[1, 1, 1, 1, -np.inf]]),
        "column 'z3' must be a finite number or NaN, got -inf in row 0",
    ),
    (lambda: D.puc_prediction([[2, 1, 0], [3, 0, 0]]), "column 'b1' must be one of 0, …, 2, got 3.0 in row 1"),
    (lambda: D.unrestricted_prediction([[2, 0.5, 0]]), "column 'z1' must be one of 0, …, 1 or NaN, got 0.5 in row 0"),
]


def test_family_errors_name_the_parameter_or_column():
    for call, text in ERRORS:
        with pytest.raises(ValueError, match=text):
            call()
