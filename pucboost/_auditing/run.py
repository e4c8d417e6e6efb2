"""``puc.audit``: wiring only."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from .._arrays import Array
from .._prediction.prediction import check_favourable
from .._progress import progress_bar
from .._virtual.plan import child_seed
from .estimate import companions
from .estimate.inputs import AuditedModel, People, consent_and_categories, outcome_of_class, read_people
from .estimate.losses import choose_loss, reads_zero_as_missing
from .estimate.nuisance import N_FOLDS, CrossFitter, Estimators
from .estimate.penalty import FITS_PER_MASK, MIN_COUNT, estimate_penalties, not_testable, overall, score_mask
from .estimate.provenance import provenance
from .estimate.reference import read_training, references
from .findings import Penalty
from .results import AuditReport

SIMULTANEOUS = {
    "max-t": "max-t: the quantile of the largest of all correlated test statistics",
    "bonferroni": "Bonferroni: valid under any dependence",
    "none": "none: each interval holds for itself only",
}


def audit(
    model: Any,
    X: Any,
    y: Any,
    *,
    margin: float,
    optional: Any = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    relative: bool = False,
    loss: str = "auto",
    alpha: float | None = None,
    target_class: int | None = None,
    favourable: str = "lower",
    subgroups: Any = None,
    clusters: Any = None,
    train_data: Any = None,
    truth: Any = None,
    min_count: int = 100,
    max_masks: int = 64,
    level: float = 0.95,
    simultaneous: str = "max-t",
    nuisance: Any = None,
    folds: int = N_FOLDS,
    seed: int = 0,
    num_threads: int | None = None,
    progress: bool | None = None,
) -> AuditReport:
    """Say whether people who withhold data are treated as their remaining data justify.

    For every set S of groups that people share exactly, the average penalty

        θ_S = E[f(X) − E[Y | b, A ⊇ S, z_S] | A = S]

    is estimated on held-out data by a doubly robust, cross-fitted estimate, with a confidence interval, and held
    against ``margin`` by two one-sided tests: *certified* (interval inside), *violated* (outside), *inconclusive*.

    Parameters
    ----------
    model
        A booster of either engine, an anchored model, a scikit-learn estimator (``predict_proba`` is preferred), or a
        callable from a table to predictions.
    X, y
        Held-out people and their outcomes; not the data the model was trained on.
    margin
        Largest average penalty regarded as harmless, in units of the prediction (0.02 is two percentage points of a
        probability), or with ``relative`` as a share of the mean prediction. It belongs to those who regulate, not to
        the data: fix it beforehand.
    optional, available
        What is optional, and who shares it, as in :class:`pucboost.Dataset`. A pucboost booster knows the former.
    weight, exposure
        Weights of rows. With an exposure, ``y`` are counts or sums over it, and the model predicts per unit.
    loss
        ``"squared"``, ``"binary"``, ``"poisson"``, ``"quantile"`` (with ``alpha``), or ``"auto"``: from the booster's
        objective, else from the outcomes.
    target_class
        The class to audit, for a model with several: one of the labels of a scikit-learn classifier, else its number.
    favourable
        ``"lower"`` (premiums) or ``"higher"`` (approval): which predictions people prefer.
    subgroups
        Sets of people by base features, to be judged separately as well: a dict name → True/False per row, or one label
        per row.
    clusters
        One label per row; rows with the same label (several years of one person) are not independent.
    train_data
        ``(X, y)`` or ``(X, y, weight)`` the model was trained on; with an exposure, ``y`` are rates, and it is the
        weight. The models of reference are then trained on them, and it can be seen which sets training never saw, and
        whether the audit data are the training data.
    truth
        A simulator with ``puc_prediction(X)``, or the justified predictions, where they are known.
    min_count
        Sets with fewer people are not tested.
    max_masks
        Test at most so many sets, the most frequent ones.
    level
        Confidence of each one-sided test, and of the two-sided intervals shown.
    simultaneous
        ``"max-t"``, ``"bonferroni"`` or ``"none"``: how verdicts on several sets are kept jointly valid.
    nuisance
        LightGBM parameters for the models of outcome and availability, or a pair of scikit-learn estimators
        (outcome, availability).
    folds, seed, num_threads
        Folds of the cross-fitting (at least 3), seed, threads.
    progress
        Show a progress bar; by default on a terminal only.

    Returns
    -------
    AuditReport
        ``passed``, ``verdict``, ``penalty`` (a DataFrame), ``to_html``, ``to_json``, ``to_markdown``, ``plot_*``.

    Examples
    --------
    >>> from pucboost.simulate import LogisticFamily
    >>> family = LogisticFamily.teaser()
    >>> people = family.sample(2000, seed=0)
    >>> report = audit(family.puc_prediction, people.X, people.y, optional=family.optional, margin=0.05)
    >>> report.verdict
    'certified'
    """
    start = time.perf_counter()
    _check_settings(margin, level, simultaneous, min_count, max_masks, folds, favourable)
    margin, level, min_count, folds, seed = float(margin), float(level), int(min_count), int(folds), int(seed)
    consent, categories = consent_and_categories(model)
    outcome, output = outcome_of_class(model, y, target_class)
    people, notes = read_people(
        X,
        outcome,
        consent=consent,
        categories=categories,
        optional=optional,
        available=available,
        weight=weight,
        exposure=exposure,
        subgroups=subgroups,
        clusters=clusters,
        zero_as_missing=reads_zero_as_missing(model),
        num_threads=num_threads,
    )
    audited = AuditedModel(model, people, output, num_threads)
    chosen = choose_loss(loss, alpha, model, people.y)
    chosen.check(audited.given, people.y)
    if relative and not chosen.is_mean:
        raise ValueError(
            "relative=True needs a penalty in units of the prediction; that of a quantile is a probability."
        )
    if not chosen.is_mean:
        _check_no_ties(audited.given, people, margin)
    if chosen.name == "binary" and np.isin(audited.given, (0, 1)).all():
        notes.append("Every prediction is 0 or 1; an audit of decisions needs the probabilities behind them.")
    if np.ptp(audited.given) == 0:
        notes.append(f"The model predicts {audited.given[0]:g} for everybody.")
    masks = _tested_masks(people, min_count, max_masks)
    training = read_training(train_data, model, people, y, target_class, notes)
    crossfits = FITS_PER_MASK * len({*masks, 0}) + people.consent.n_groups + (2 if training.table is None else 0)

    done = itertools.count(1)
    with progress_bar("fitting nuisance models", progress) as report:
        fitter = CrossFitter(
            people, _nuisance(nuisance), folds, seed, num_threads, lambda: report(next(done) / (crossfits * folds))
        )
        everybody = fitter.view(0)
        nothing = score_mask(people, audited, chosen, everybody, 0)
        informative = companions.informativeness(people, nothing, everybody)
        scored = [
            nothing if mask == 0 else score_mask(people, audited, chosen, fitter.view(mask), mask) for mask in masks
        ]
        base, unrestricted = references(people, chosen, fitter, training, seed, num_threads)

    mean_prediction = float(np.average(audited.given, weights=people.weight))
    bound = margin * abs(mean_prediction) if relative else margin
    if bound == 0:
        raise ValueError(
            "relative=True needs a mean prediction other than 0; give the margin in units of the prediction."
        )
    penalties, critical = estimate_penalties(
        people, audited, chosen, scored, min_count, bound, level, simultaneous, seed
    )
    penalties += _untested(people, masks, min_count, max_masks)
    verdict, reason = overall(penalties, bound, chosen.describe)
    withheld = audited.masked(np.arange(len(people)), 0)
    support, warnings = companions.describe_support(people, masks, training.masks_seen)
    silent = people.shared == 0
    compared = [
        (np.ones(len(people), dtype=bool), base, ("everybody", "base features only")),
        (~silent, base, ("people who share something", "base features only")),
        (np.ones(len(people), dtype=bool), unrestricted, ("everybody", "unrestricted")),
    ]
    calibration = [
        companions.masked_calibration(people, withheld, "everybody, everything optional erased", level, chosen),
        companions.masked_calibration(people, audited.given, "everybody, as they come", level, chosen),
    ]
    return AuditReport(
        verdict=verdict,
        reason=reason,
        margin=bound,
        relative_margin=margin if relative else None,
        level=level,
        simultaneous=SIMULTANEOUS[simultaneous],
        critical_value=critical,
        loss=chosen.title,
        unit=chosen.unit,
        favourable=favourable,
        mean_prediction=mean_prediction,
        penalties=tuple(penalties),
        inference_from_silence=companions.compare_losses(
            people, chosen, audited.given, base, silent, ("people who share nothing", "base features only"), level
        ),
        non_degradation=tuple(
            companions.compare_losses(people, chosen, audited.given, other, who, names, level)
            for who, other, names in compared
        ),
        informativeness=tuple(informative),
        averages=tuple(companions.average_predictions(people, audited.given, base, unrestricted, masks)),
        sharing_effect=companions.sharing_effect(people, audited, withheld, favourable),
        balance=tuple(companions.book_balance(people, audited.given, masks, level)),
        support=support,
        puc_gap=None if truth is None else companions.gap_to_truth(people, audited.given, truth, masks),
        calibration=tuple(c for c in calibration if c is not None),
        scatter=tuple(companions.scatter_of_silent(people, audited.given, base, child_seed(seed, 5))),
        provenance=provenance(people, audited, seed, folds, min_count, training, nuisance, time.perf_counter() - start),
        warnings=(*notes, *warnings),
    )


def _check_settings(
    margin: Any, level: Any, simultaneous: Any, min_count: Any, max_masks: Any, folds: Any, favourable: Any
) -> None:
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 < float(margin) < float("inf"):
        raise ValueError(f"margin must be a positive number, the largest harmless average penalty; got {margin!r}.")
    if not 0.5 < level < 1:
        raise ValueError(f"level must lie between 0.5 and 1, for example 0.95; got {level!r}.")
    if simultaneous not in SIMULTANEOUS:
        raise ValueError(f"simultaneous must be one of {', '.join(map(repr, SIMULTANEOUS))}; got {simultaneous!r}.")
    if min_count < MIN_COUNT:
        raise ValueError(f"min_count must be at least {MIN_COUNT}, got {min_count!r}.")
    if max_masks < 1:
        raise ValueError(f"max_masks must be at least 1, got {max_masks!r}.")
    if folds < 3:
        raise ValueError(f"folds must be at least 3: one to predict, and one for each of two models; got {folds!r}.")
    check_favourable(favourable)


def _tested_masks(people: People, min_count: int, max_masks: int) -> list[int]:
    """Return the sets to test: nothing first, everything last, between them the most frequent first."""
    masks = [mask for mask, count in people.mask_counts.items() if count >= min_count][:max_masks]
    return sorted(masks, key=lambda mask: (mask != 0, mask == people.everything))


def _nuisance(nuisance: Any) -> Mapping[str, Any] | Estimators:
    if nuisance is None:
        return {}
    if isinstance(nuisance, Mapping):
        return nuisance
    if isinstance(nuisance, (tuple, list)) and len(nuisance) == 2 and all(hasattr(one, "fit") for one in nuisance):
        return Estimators(*nuisance)
    raise ValueError(
        "nuisance must be a dict of LightGBM parameters or a pair of scikit-learn estimators (outcome, availability); "
        f"got {nuisance!r}."
    )


def _check_no_ties(f: Array, people: People, margin: float) -> None:
    """Refuse a quantile audit where outcomes equal predictions: then P(Y ≤ f) jumps, and τ may lie within the jump."""
    share = float(np.average(people.y == f, weights=people.weight))
    if share > margin / 2:
        raise ValueError(
            f"{share:.1%} of the outcomes equal the quantile predicted, and so lie on neither side; the audit of a "
            "quantile needs continuous outcomes."
        )


def _untested(people: People, masks: list[int], min_count: int, max_masks: int) -> list[Penalty]:
    """Return entries for the most frequent sets that were not tested, and one for all others."""
    rest = [(mask, count) for mask, count in people.mask_counts.items() if mask not in masks]
    entries = []
    for mask, count in rest[:MAX_UNTESTED_SHOWN]:
        few = f"{count} people, fewer than the {min_count} asked for."
        note = few if count < min_count else f"Beyond the {max_masks} most frequent sets."
        groups = people.consent.groups_of(mask)
        entries.append(not_testable(people.name(mask), groups, None, count, len(people.at_least(mask)), note))
    further = rest[MAX_UNTESTED_SHOWN:]
    if further:
        count = sum(count for _, count in further)
        note = f"{len(further)} further sets, too rare to be tested."
        entries.append(not_testable("other sets", None, None, count, count, note))
    return entries


MAX_UNTESTED_SHOWN = 10
