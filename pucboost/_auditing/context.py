"""The numbers shown beside the verdict; some come with a warning. Of these only who is compared with themselves counts:
if many of a set are, the verdict does not cover them.

In the order below: whether silence says anything about outcomes; whom each set of people is compared with; losses
beside those of two reference models; what sharing changes; averages and the balance of the book; points to draw;
whether the data support the conclusions; the distance to a known truth; and where all figures come from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from .._common import Array
from .._engines import EXTRA_PACKAGES, PACKAGES
from .._prediction.predictor import best_subsets, favourable_sign
from .._silence import BASE_COLUMN, NOBODY, describe, find_encoded_silence
from .._virtual.plan import MIN_PEOPLE_OF_MASK
from .findings import (
    RARER_SETS,
    AveragePrediction,
    Balance,
    Calibration,
    CalibrationBin,
    Comparability,
    Coverage,
    Estimate,
    GroupSupport,
    Histogram,
    Informativeness,
    LossComparison,
    Provenance,
    PucGap,
    ScatterPoint,
    SharingEffect,
    Support,
    people_who,
)
from .nuisance import AVAILABILITY, EVENT, LIGHTGBM_PARAMS, View, outcome_loss
from .penalty import MANY_RECOGNISED
from .people import AuditedModel, AuditPeople, Loss
from .scores import MaskScores, ratio_estimate
from .settings import MIN_COUNT, FittingOptions, NuisanceEstimators, counted
from .training_data import TrainingData


def informativeness(people: AuditPeople, nothing: MaskScores, view: View) -> list[Informativeness]:
    """Test Y ⟂ A_g | b for every group by the generalised covariance measure.

    T = √n · mean(R) / sd(R), R = (Y − g(b)) · (A_g − P(A_g = 1 | b)), is standard normal under independence. For a
    quantile, Y stands for 1[Y ≤ f(b)], where f(b) is the prediction with everything withheld.

    Parameters
    ----------
    nothing
        The scores of the empty mask.
    view
        Everybody with all groups erased.
    """
    from scipy.stats import norm

    residual = nothing.target - nothing.outcome[0]
    found = []
    for g, group in enumerate(people.consent.group_names):
        shares = ((people.shared >> np.uint64(g)) & np.uint64(1)).astype(np.float64)
        rate = float(np.average(shares, weights=people.weight))
        if shares.min() == shares.max():
            everybody = "Everybody shares" if shares[0] else "Nobody shares"
            found.append(Informativeness(group, rate, None, None, None, None, f"{everybody} it: not testable."))
            continue
        sharing = shares - view.cross_fit(shares, AVAILABILITY, 1)
        product = people.weight * residual * sharing
        if people.cluster is not None:
            product = np.bincount(people.cluster, weights=product)
        spread = float(np.sqrt(max(0.0, (product**2).mean() - product.mean() ** 2)))
        scale = float(np.sqrt(_mean_square(residual, people) * _mean_square(sharing, people)))
        if spread == 0 or scale == 0:
            found.append(Informativeness(group, rate, None, None, None, None, "No variation: not testable."))
            continue
        statistic = float(np.sqrt(len(product)) * product.mean() / spread)
        correlation = float(np.average(residual * sharing, weights=people.weight) / scale)
        found.append(Informativeness(group, rate, correlation, statistic, 2 * float(norm.sf(abs(statistic))), None))
    return _with_holm(found)


def _mean_square(values: Array, people: AuditPeople) -> float:
    return float(np.average(values**2, weights=people.weight))


def _with_holm(found: list[Informativeness]) -> list[Informativeness]:
    tested = sorted((f for f in found if f.p_value is not None), key=lambda f: f.p_value or 0.0)
    adjusted: dict[str, float] = {}
    running = 0.0
    for place, f in enumerate(tested):
        running = max(running, min(1.0, (len(tested) - place) * (f.p_value or 0.0)))
        adjusted[f.group] = running
    return [replace(f, adjusted_p_value=adjusted.get(f.group)) for f in found]


# --------------------------------------------------------------------------------------------------
# What each set of people is compared with, and what the comparison leaves out.
#
# Three numbers for those who share exactly S, with D = 1[A = S] and e = P(D = 1 | b, z_S, A ⊇ S):
#
# - the calibration κ = E[f − Y | A ⊇ S], everybody masked to S. It needs no nuisance model and is 0 for f*.
# - the share P(e > 0.95 | A = S), as far as it is sure. The yardstick g averages over the silent themselves, so as
#   e → 1 a model that reads silence passes by definition; beyond a quarter, the verdict does not cover these people.
# - the penalty against people who share strictly more, g' = E[Y | b, z_S, A ⊋ S] in place of g. Where e ≤ 0.95,
#
#       Σ [D(f − g') − (1 − D)·e/(1 − e)·(Y − g')] / Σ D,
#
#   again with first-order errors of g' and e cancelling. Where e > 0.95 nothing is known of g' but that it lies between
#   the smallest and the largest outcome [l, u]; so over all people of the set the bounds are
#   (u − l)·P(ê > 0.95 | A = S) apart. It is not 0 for f* where silence is informative: f* − g' = e·(E[Y | A = S] − g').


RECOGNISED = 0.95
"""From this probability on, hardly anybody like a person shares more."""
MIN_MORE = 100
"""So many people must share more, to be a yardstick of their own."""


def comparability(people: AuditPeople, loss: Loss, view: View, scored: MaskScores, level: float) -> Comparability:
    assert scored.share is not None
    assert scored.deviation is not None
    exact, weight, cluster = scored.size > 0, view.weight, view.cluster
    kappa = ratio_estimate(weight * scored.deviation, weight, level, cluster)
    name = RARER_SETS if scored.mask is None else people.name(scored.mask)
    count, compared = int(exact.sum()), len(np.unique(scored.rows))
    if exact.all() or scored.mask == people.everything:
        view.skip()
        return Comparability(name, count, compared, kappa, None)
    share = (scored.share[0] + scored.share[1]) / 2
    alone = share > RECOGNISED
    recognised = float(scored.size[surely_alone(share, exact)].sum() / scored.size.sum())
    if (~exact).sum() < MIN_MORE or not (exact & ~alone).any():
        view.skip()
        return Comparability(name, count, compared, kappa, recognised)
    stricter, bounds = _stricter(loss, view, scored, alone, weight, cluster, level)
    return Comparability(name, count, compared, kappa, recognised, stricter, *bounds)


def surely_alone(share: Array, exact: Array) -> Array:
    """Return the rows of whom surely at least 95 of 100 share no more, those with the largest ê.

    ê is noisy and grown beyond what predicts best, so that ê > 0.95 alone would find too many. Nobody's own ê saw
    whether they share more, so it is counted: of the k largest ê, Wilson's lower bound of the share with A = S.
    """
    order = np.argsort(-share, kind="stable")
    order = order[share[order] > RECOGNISED]
    k, z = np.arange(1, len(order) + 1), 1.645
    rate = np.cumsum(exact[order]) / k
    lower = (rate + z**2 / (2 * k) - z * np.sqrt(rate * (1 - rate) / k + z**2 / (4 * k**2))) / (1 + z**2 / k)
    sure = np.flatnonzero(lower >= RECOGNISED)
    return order[: sure[-1] + 1] if len(sure) else order[:0]


def _stricter(
    loss: Loss, view: View, scored: MaskScores, alone: Array, weight: Array, cluster: Array | None, level: float
) -> tuple[Estimate, tuple[float, float]]:
    """Return the penalty against people who share more where there are any, and its bounds over all of the set."""
    assert scored.share is not None
    assert scored.deviation is not None
    exact, y, e = scored.size > 0, scored.target, np.minimum(scored.share[0], RECOGNISED)
    f = scored.deviation + y if loss.is_mean else np.full(len(y), loss.alpha)
    among = np.flatnonzero(~exact)
    g = view.cross_fit(y, outcome_loss(loss) if loss.is_mean else EVENT, 0, f, among=among)
    sign = 1.0 if loss.is_mean else -1.0  # f − g of a mean, g − τ of a quantile
    score = weight * sign * (exact * (f - g) - ~exact * e / (1 - e) * (y - g))
    estimate = ratio_estimate((score * ~alone), scored.size * ~alone, level, cluster)
    low, high = (0.0, 1.0) if loss.unit_is_probability else (float(y.min()), float(y.max()))
    lost, told = scored.size * alone, float(scored.size.sum())
    ends = sorted(float((lost * sign * (f - end)).sum()) for end in (low, high))
    known = estimate.value * float((scored.size * ~alone).sum())
    return estimate, ((known + ends[0]) / told, (known + ends[1]) / told)


def compared_with_themselves(found: list[Comparability]) -> list[str]:
    """Return a warning where many people of a set are compared with themselves."""
    often = [c for c in found if (c.recognised or 0) > MANY_RECOGNISED]
    if not often:
        return []
    worst = max(often, key=lambda c: c.recognised or 0)
    who = people_who(worst.name)
    more = "" if len(often) == 1 else f" ({len(often)} sets like that)"
    return [
        f"Of the {who}, {worst.recognised:.0%} are compared with themselves: "
        f"hardly anybody with the same data shares more{more}. What a model reads out of their silence looks justified "
        "there."
    ]


# --------------------------------------------------------------------------------------------------
# Losses of the audited model compared with those of the reference models.


def loss_comparisons(
    people: AuditPeople, loss: Loss, model: Array, base: Array | None, unrestricted: Array | None, level: float
) -> tuple[LossComparison, tuple[LossComparison, ...]]:
    """Return the comparison on the silent (inference from silence), and those on everybody and on those who share."""
    everybody, silent = np.ones(len(people), dtype=bool), people.shared == 0
    on_silent, *others = (
        compare_losses(people, loss, model, other, who, names, level)
        for who, other, names in (
            (silent, base, ("people who share nothing", "base features only")),
            (everybody, base, ("everybody", "base features only")),
            (~silent, base, ("people who share something", "base features only")),
            (everybody, unrestricted, ("everybody", "unrestricted")),
        )
    )
    return on_silent, tuple(others)


def compare_losses(
    people: AuditPeople, loss: Loss, model: Array, other: Array | None, who: Array, names: tuple[str, str], level: float
) -> LossComparison:
    """Compare the mean losses of two models on the people ``who``, person by person."""
    rows = np.flatnonzero(who)
    people_name, other_name = names
    if len(rows) < 2 or other is None:
        why = "such person" if len(rows) == 1 else "such people"
        note = f"{len(rows):,} {why}: not testable." if other is not None else "Not compared, as nothing can be tested."
        return LossComparison(people_name, other_name, len(rows), None, None, None, note)
    w, y = people.weight[rows], people.y[rows]
    own, others = loss.pointwise(model[rows], y), loss.pointwise(other[rows], y)
    cluster = None if people.cluster is None else np.unique(people.cluster[rows], return_inverse=True)[1]
    return LossComparison(
        people_name,
        other_name,
        len(rows),
        float(np.average(own, weights=w)),
        float(np.average(others, weights=w)),
        ratio_estimate(w * (own - others), w, level, cluster),
    )


# --------------------------------------------------------------------------------------------------
# What sharing changes for those who share.


MAX_SUBSETS = 64

N_HISTOGRAM_BINS = 30


def sharing_effect(people: AuditPeople, model: AuditedModel, withheld: Array, favourable: Any) -> SharingEffect | None:
    """Compare predictions as given with those for withholding everything; None if nobody shares anything.

    Who is worse off is left out where nobody has said which predictions people prefer.
    """
    who = np.flatnonzero(people.shared)
    if len(who) == 0:
        return None
    given, w = model.given[who], people.weight[who]
    change = given - withheld[who]
    bonus = better = loss = None
    if favourable is not None:
        sign = favourable_sign(favourable)
        loss = np.maximum(sign * change, 0)
        bonus, better = _bonus(people, model, who, withheld, sign)
    levels = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    values = np.quantile(change, levels, method="inverted_cdf", weights=w)
    return SharingEffect(
        people=len(who),
        mean=float(np.average(change, weights=w)),
        quantiles={f"{level:g}": float(value) for level, value in zip(levels, values, strict=True)},
        share_worse_off=None if loss is None else float(np.average(loss > 0, weights=w)),
        largest_loss=None if loss is None else float(loss.max()),
        mean_bonus=None if bonus is None else float(np.average(bonus, weights=w)),
        share_with_better_subset=None if better is None else float(np.average(better, weights=w)),
        histogram=_histogram(change, w),
    )


def _bonus(
    people: AuditPeople, model: AuditedModel, who: Array, withheld: Array, sign: float
) -> tuple[Array | None, Array | None]:
    """Return what the best subset of each person would gain, and whether it is better than all they share."""
    nesting = people.consent.nesting
    if nesting.count(people.everything) > MAX_SUBSETS:
        return None, None

    @cache
    def predicted(mask: int) -> Array:
        """Predictions of all who share more than a set, with the rest erased: one call of the model per set."""
        rows = people.at_least(mask)
        rows = rows[people.shared[rows] != np.uint64(mask)]
        values = np.full(len(people), np.nan)
        values[rows] = model.masked(rows, mask)
        return values

    def all_subsets(rows: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        some = who[rows]
        batches = model.subsets(some, submasks)
        if batches is not None:
            yield rows, np.concatenate([values for _, values in batches])
            return
        # Predictions as people come, and with everything withheld, are known already.
        between = [predicted(int(mask))[some] for mask in submasks[1:-1]]
        yield rows, np.column_stack([withheld[some], *between, model.given[some]])

    best, _ = best_subsets(people.shared[who], all_subsets, sign, nesting=nesting)
    gain = sign * (model.given[who] - best)
    return gain, gain > 0


def _histogram(values: Array, weights: Array) -> Histogram:
    lowest, highest = float(values.min()), float(values.max())
    # Values that differ only by rounding count as one.
    tiny = 1e-9 * max(abs(lowest), abs(highest), 1.0)
    if highest - lowest <= tiny:
        lowest, highest = lowest - 1e3 * tiny, highest + 1e3 * tiny
    counts, edges = np.histogram(values, bins=N_HISTOGRAM_BINS, range=(lowest, highest), weights=weights)
    return Histogram(tuple(edges.tolist()), tuple((counts / weights.sum()).tolist()))


# --------------------------------------------------------------------------------------------------
# Averages by what people share: actual and expected, and three models side by side.


def average_predictions(
    people: AuditPeople, model: Array, base: Array | None, unrestricted: Array | None, masks: list[int]
) -> list[AveragePrediction]:
    if base is None or unrestricted is None:
        return []
    rows = []
    for mask in masks:
        who = people.shared == np.uint64(mask)
        means = [
            float(np.average(values[who], weights=people.weight[who]))
            for values in (model, base, unrestricted, people.y)
        ]
        rows.append(AveragePrediction(people.name(mask), int(who.sum()), *means))
    return rows


def book_balance(people: AuditPeople, model: Array, masks: list[int], level: float) -> list[Balance]:
    """Return actual and expected outcomes, overall and by exact set of shared groups."""
    parts = [("everybody", np.ones(len(people), dtype=bool))]
    parts += [(people.name(mask), people.shared == np.uint64(mask)) for mask in masks]
    rows = []
    for name, who in parts:
        w, y, f = people.weight * who, people.y, model
        total = w.sum()
        ratio = None
        if float((w * f).sum()) > 0:
            ratio = ratio_estimate(w * y, w * f, level, people.cluster)
        rows.append(
            Balance(
                name,
                int(who.sum()),
                float((w * y).sum() / total),
                float((w * f).sum() / total),
                ratio,
                ratio_estimate(w * (y - f), w, level, people.cluster),
            )
        )
    return rows


# --------------------------------------------------------------------------------------------------
# Points to draw: outcomes against predictions, and the silent under two models.


N_CALIBRATION_BINS = 10
MAX_SCATTER_POINTS = 400
PEOPLE_PER_POINT = 5


def calibration_curves(
    people: AuditPeople, given: Array, withheld: Array, loss: Loss, level: float
) -> tuple[Calibration, ...]:
    """Return the curve with everything optional erased and that of people as they come; none for a quantile."""
    if not loss.is_mean:
        return ()
    return (
        _curve(people, withheld, "everybody, everything optional erased", level),
        _curve(people, given, "everybody, as they come", level),
    )


def _curve(people: AuditPeople, prediction: Array, name: str, level: float) -> Calibration:
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, N_CALIBRATION_BINS + 1)))
    bins = np.clip(np.searchsorted(edges, prediction, side="right") - 1, 0, max(0, len(edges) - 2))
    found = []
    for b in np.flatnonzero(np.bincount(bins) >= MIN_COUNT):  # fewer would tell somebody's outcome
        who = (bins == b).astype(np.float64) * people.weight
        outcome = ratio_estimate(who * people.y, who, level, people.cluster)
        found.append(
            CalibrationBin(
                float((who * prediction).sum() / who.sum()),
                outcome.value,
                outcome.lower,
                outcome.upper,
                int((bins == b).sum()),
            )
        )
    return Calibration(name, tuple(found))


def scatter_of_silent(people: AuditPeople, model: Array, base: Array | None, seed: int) -> list[ScatterPoint]:
    """Return predictions of the base-features model and of the audited model for a sample of people who share nothing.

    A point stands for five of them, neighbours in the first: from a single prediction a person could be found.
    """
    if base is None:
        return []
    who = np.random.default_rng(seed).permutation(np.flatnonzero(people.shared == 0))
    who = who[: min(MAX_SCATTER_POINTS, len(who) // PEOPLE_PER_POINT) * PEOPLE_PER_POINT]
    some = who[np.argsort(base[who], kind="stable")].reshape(-1, PEOPLE_PER_POINT)
    return [ScatterPoint(float(base[five].mean()), float(model[five].mean())) for five in some]


# --------------------------------------------------------------------------------------------------
# Whether the data can support the conclusions.


RARE_SHARE = 0.01
"""A group shared or withheld by fewer people than this gets a warning."""


def describe_support(people: AuditPeople, covered: Coverage, training: TrainingData) -> tuple[Support, list[str]]:
    """Return how far the data support the conclusions, with warnings."""
    notes = []
    counts = people.mask_counts
    seen = training.masks_seen
    unseen = None if seen is None else [mask for mask in counts if mask not in seen]
    unseen_people = None if unseen is None else sum(counts[mask] for mask in unseen)
    if unseen:
        notes.append(
            f"{counted(unseen_people or 0, 'person shares a set', 'people share sets')} of groups that fewer than "
            f"{MIN_PEOPLE_OF_MASK} people in training shared exactly so, for example {people.name(unseen[0])!r}."
        )
    encoded = find_encoded_silence(people.source, people.consent, people.shared)
    withheld_by_nobody = {one.group for one in encoded if one.kind == NOBODY}
    groups = []
    for g, group in enumerate(people.consent.group_names):
        shared = int(((people.shared >> np.uint64(g)) & np.uint64(1)).sum())
        rate = shared / len(people)
        groups.append(GroupSupport(group, rate, len(people) - shared, shared))
        if rate < RARE_SHARE or rate > 1 - RARE_SHARE:
            word = "shared" if rate < RARE_SHARE else "withheld"
            few = shared if rate < RARE_SHARE else len(people) - shared
            notes.append(
                f"Group {group!r} is {word} by {few:,} of {len(people):,} people; little can be said about it."
                + (" Was silence imputed or encoded in these data?" if group in withheld_by_nobody else "")
            )
    telling = [one for one in encoded if one.kind == BASE_COLUMN]
    if telling:
        notes.append(
            f"Base columns tell who is silent: {describe(telling)}. A model can read silence in them, and the audit, "
            "which compares people with equal base columns, does not see it."
        )
    values = [one for one in encoded if one.kind not in (NOBODY, BASE_COLUMN)]
    if values:
        notes.append(
            f"Silence may have been encoded as a value: {describe(values)}. If so, these people are counted as "
            "sharing, and the audit does not see what their silence costs them."
        )
    w = people.weight
    effective = float(w.sum() ** 2 / (w**2).sum())
    if effective < 0.5 * len(people):
        notes.append(f"The weights leave an effective sample of {effective:,.0f} of {len(people):,} rows.")
    return Support(
        masks=len(counts),
        unseen_in_training=None if unseen is None else tuple(people.name(mask) for mask in unseen),
        unseen_people=unseen_people,
        untested_people=covered.not_covered,
        groups=tuple(groups),
        effective_sample_size=effective,
        trained_on=training.trained_on,
        withholding_people=covered.withholding,
    ), notes


# --------------------------------------------------------------------------------------------------
# Distance to the truth, where it is known, as in a simulation.


def gap_to_truth(people: AuditPeople, model: Array, truth: Any, masks: list[int]) -> PucGap:
    """Compare with a simulator that knows the justified predictions (``puc_prediction``), or with the predictions."""
    justified = np.asarray(truth.puc_prediction(people.container) if hasattr(truth, "puc_prediction") else truth)
    if people.kept is not None and len(justified) != len(people):
        justified = justified[people.kept]
    if justified.shape != model.shape:
        raise ValueError(f"truth must give one prediction for each of the {len(people)} rows, got {justified.shape}.")
    distance = model - justified
    exact = {mask: people.shared == np.uint64(mask) for mask in masks}
    return PucGap(
        float(np.average(distance**2, weights=people.weight)),
        {
            people.name(mask): float(np.average(distance[who], weights=people.weight[who]))
            for mask, who in exact.items()
        },
    )


# --------------------------------------------------------------------------------------------------
# Where an audit's figures come from: data, model, versions, settings.


_TELLING = ("learning_rate", "num_leaves", "min_data_in_leaf")
_PACKAGES = sorted((*PACKAGES, *EXTRA_PACKAGES, "numpy", "scikit-learn", "scipy"))


def provenance(
    people: AuditPeople,
    model: AuditedModel,
    training: TrainingData,
    fitting: FittingOptions,
    min_count: int,
    seconds: float,
) -> Provenance:
    """Return what somebody else needs to repeat the audit."""
    consent = people.consent
    optional = set(consent.group_columns.tolist())
    nuisance = fitting.nuisance
    if isinstance(nuisance, NuisanceEstimators):
        described = f"scikit-learn: {nuisance.outcome!r}, {nuisance.availability!r}"
    else:
        settings = ", ".join(f"{k}={v}" for k, v in {**LIGHTGBM_PARAMS, **nuisance}.items() if k in _TELLING)
        described = f"LightGBM, early-stopped ({settings})"
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=len(people),
        seed=fitting.seed,
        folds=fitting.folds,
        min_count=min_count,
        reference_data="the audit data, cross-fitted" if training.table is None else "the training data",
        data_hash=people.fingerprint(),
        model_hash=model.fingerprint,
        model_kind=model.kind,
        consent={g: tuple(consent.feature_names[c] for c in columns) for g, columns in consent.groups.items()},
        base_features=tuple(name for j, name in enumerate(consent.feature_names) if j not in optional),
        versions=versions(),
        nuisance=described,
        seconds=round(seconds, 1),
        needs=dict(consent.needs),
    )


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of those that it computes with."""
    from .. import __version__

    found = {"python": sys.version.split()[0], "pucboost": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # not installed as a package
            continue
    return found
