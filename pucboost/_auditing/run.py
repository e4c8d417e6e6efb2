"""``puc.audit``: read, fit, judge, report."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from .._common import Array, progress_bar
from .._models.anchored import is_tree_model
from .._models.files import consent_of
from .._models.schema import categories_of
from .._prediction.people import favourable_of, predicts_per_exposure
from .._tables.sources import engine_threads_for
from .._virtual.plan import child_seed
from .context import (
    average_predictions,
    book_balance,
    calibration_curves,
    comparability,
    compared_with_themselves,
    describe_support,
    gap_to_truth,
    informativeness,
    loss_comparisons,
    provenance,
    scatter_of_silent,
    sharing_effect,
)
from .findings import NOT_TESTABLE, AuditReport, Comparability, Informativeness
from .nuisance import CrossFitter, references
from .penalty import (
    Sets,
    carried_by_one,
    choose_sets,
    coverage,
    estimate_penalties,
    on_gaps,
    overall,
    untested_sets,
    why_nothing_can_be_tested,
)
from .people import (
    AuditedModel,
    AuditPeople,
    Loss,
    choose_loss,
    outcome_of_class,
    read_audit_people,
    reads_zero_as_missing,
)
from .recognition import columns_that_tell, on_columns_that_tell, recognise, recognition_in_words
from .scores import FITS_PER_MASK, MaskScores, normal_quantile, score_mask
from .settings import (
    SIMULTANEOUS,
    AuditOptions,
    FittingOptions,
    JudgementOptions,
    PeopleOptions,
    group_options,
    show_options,
)
from .training_data import TrainingData, on_people_seen, read_training
from .within import Directed, for_some, judge_within, learn_directions, teaching_folds


@show_options
def audit(
    model: Any,
    X: Any,
    y: Any,
    *,
    margin: float,
    train_data: Any = None,
    row_key: Any = None,
    truth: Any = None,
    **options: Unpack[AuditOptions],
) -> AuditReport:
    """Judge whether people who withhold data are treated as their remaining data justify.

    For every set S of groups that people share exactly, the average penalty

        θ_S = E[f(X) − E[Y | b, A ⊇ S, z_S] | A = S]

    is estimated on held-out data by a doubly robust, cross-fitted estimate, with a confidence interval, and compared
    with ``margin`` by two one-sided tests: *certified* (interval inside), *violated* (outside), *inconclusive*. Where
    averages hide that some people of a set are told too much and others too little, beyond the margin, the verdict is
    *violated for some*.

    The verdict is about everybody who withholds something. Every set that may hold 1 % of the people, and the totally
    silent, are tested on their own, rarer sets together. Where some of them cannot be tested, or are compared with
    themselves only, a model is at best *certified in part*.

    Parameters
    ----------
    model
        A booster of any engine, an anchored model, a scikit-learn estimator (``predict_proba`` is preferred), be it
        a pipeline, a search or another wrapper, or a callable from a table to predictions.
    X, y
        Held-out people and their outcomes; not the data the model was trained on. Only with ``row_key`` or
        ``train_data`` can the audit tell: where the model was surely trained on more than 5 % of the people, nothing is
        certified.
    margin
        Largest average penalty regarded as harmless, in units of the prediction (0.02 is two percentage points of a
        probability). Those who regulate set it, not the data: fix it beforehand.
    train_data
        ``(X, y)`` or ``(X, y, weight)`` the model was trained on; with an exposure, ``y`` are rates and the weight is
        the exposure. The reference models are then trained on these data, and the report says which sets hardly
        anybody shared there. Whether the audited people are among them is then read from these data, too.
    row_key
        Where the key is with which the model was trained, as in :func:`pucboost.train`: a file, or ``"env:NAME"``.
    truth
        A simulator with ``puc_prediction(X)``, or the justified predictions themselves, if they are known.
    optional, not_applicable, available
        What is optional, where it does not apply, and who shares it, as in :class:`pucboost.Dataset`. A model of
        pucboost knows what is optional, also inside a pipeline, a search and the like; where it cannot be followed back
        to the columns of X, an error says so.
    weight, exposure
        Weights of rows. With an exposure, ``y`` are totals that add up over it, and the model predicts per unit, as in
        :class:`pucboost.Dataset`: outcomes become y / exposure, weights are multiplied by it, and margin, penalties and
        all averages are per unit of exposure.
    subgroups
        Sets of people by base features, to be judged separately as well: a dict name → True/False per row, or one label
        per row.
    clusters
        One label per row; rows with the same label (several years of one person) are not independent.
    target_class
        The class to audit, for a model with several: one of the labels of a scikit-learn classifier, else its number.
    relative
        Read ``margin`` as a share of the mean prediction.
    margin_set_by
        Who fixed the margin, and when, for readers of the report: ``"supervisory board, 3 May 2026"``.
    loss, alpha
        ``"squared"``, ``"binary"``, ``"poisson"``, ``"quantile"`` (at level ``alpha``), or ``"auto"``: from the
        booster's objective, else from the outcomes.
    favourable
        ``"lower"`` (premiums) or ``"higher"`` (approval): which predictions people prefer. By default what the model
        keeps from training. Without either the report does not tell who is worse off by sharing.
    level
        Confidence of each one-sided test, and of the two-sided intervals shown.
    simultaneous
        ``"max-t"``, ``"bonferroni"`` or ``"none"``: how verdicts on several sets are kept jointly valid. That all sets
        lie within the margin needs no such allowance.
    min_count
        Fewer people are not tested on their own.
    max_masks
        Test at most this many sets on their own, the most frequent ones; all others are tested together.
    partial
        What is accepted if not everybody who withholds something is covered: None (nothing: a model that is certified
        in part does not pass), ``"allow"``, or the largest share that need not be covered. The verdict stays the same;
        ``passed``, ``assert_consent`` and exit codes follow it.
    cap
        Outcomes and predictions above this amount count as this amount, for amounts with heavy tails. The audit is
        then about capped outcomes, so the model should have been trained on outcomes capped alike.
    justified
        Base columns that may tell who withholds, because somebody has found a good reason for them. A model is not
        certified while other base columns give away nearly for certain who withholds.
    nuisance
        LightGBM parameters for the models of outcome and availability, or a pair of scikit-learn estimators
        (outcome, availability).
    folds, seed, num_threads
        Folds of the cross-fitting (at least 3), seed, threads (by default as in :func:`train`).
    progress
        Show a progress bar; by default on a terminal and in notebooks.

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
    groups = group_options(margin, options)
    with engine_threads_for(groups[-1].num_threads, X):
        return _audit(model, X, y, train_data, row_key, truth, *groups)


def _audit(
    model: Any,
    X: Any,
    y: Any,
    train_data: Any,
    row_key: Any,
    truth: Any,
    who: PeopleOptions,
    judgement: JudgementOptions,
    fitting: FittingOptions,
) -> AuditReport:
    start = time.perf_counter()
    case = _read(model, X, y, who, judgement, fitting)
    training, seen_in_training, not_known = read_training(
        train_data, row_key, model, case.people, y, who.target_class, fitting.num_threads
    )
    people, given, level = case.people, case.model.given, judgement.level
    penalties = why_nothing_can_be_tested(people, case.sets, case.loss, judgement)
    if penalties is None:
        with engine_threads_for(fitting.num_threads, people.source):
            fitted = _fit(case, training, fitting, level)
            recognition = recognise(people, fitting)
        penalties, critical = estimate_penalties(
            people, case.model, case.loss, fitted.scored, case.bound, judgement, fitting.seed
        )
        penalties += untested_sets(people, case.sets, judgement)
        tested = {p.name for p in penalties if p.subgroup is None and p.verdict != NOT_TESTABLE}
        directed = [one for one in fitted.directed if one.name(people) in tested]
        within = judge_within(people, case.loss, directed, case.bound, level, judgement.simultaneous, fitting.seed)
    else:
        fitted, critical, within, recognition = _Fitted(), normal_quantile(level), (), None
    covered = coverage(people, case.sets, penalties, fitted.comparability, judgement)
    telling = columns_that_tell(recognition, judgement.justified, people.consent)
    # First what was found, then what speaks against certifying it; each step sees the verdict of those before.
    verdict, reason = overall(penalties, case.bound, case.loss.describe)
    verdict, reason, penalties = for_some(verdict, reason, penalties, within, case.bound, case.loss.describe)
    verdict, reason, penalties = on_columns_that_tell(verdict, reason, penalties, telling)
    verdict, reason, penalties = on_people_seen(verdict, reason, penalties, training.trained_on)
    verdict, reason = on_gaps(verdict, reason, covered)
    withheld = case.model.masked(np.arange(len(people)), 0)
    favourable = judgement.favourable
    if favourable is None and who.target_class is None:  # what a model keeps is about its own prediction
        favourable = favourable_of(model)
    support, little_support = describe_support(people, covered, training)
    on_silent, on_others = loss_comparisons(people, case.loss, given, fitted.base, fitted.unrestricted, level)
    return AuditReport(
        verdict=verdict,
        reason=reason,
        margin=case.bound,
        relative_margin=judgement.margin if judgement.relative else None,
        margin_set_by=judgement.margin_set_by,
        level=level,
        simultaneous=SIMULTANEOUS[judgement.simultaneous],
        critical_value=critical,
        loss=case.loss.title,
        unit=case.loss.unit,
        favourable=favourable,
        mean_prediction=case.mean_prediction,
        penalties=tuple(penalties),
        inference_from_silence=on_silent,
        non_degradation=on_others,
        informativeness=fitted.informativeness,
        averages=tuple(average_predictions(people, given, fitted.base, fitted.unrestricted, case.sets.alone)),
        sharing_effect=sharing_effect(people, case.model, withheld, favourable),
        balance=tuple(book_balance(people, given, case.sets.alone, level)),
        support=support,
        puc_gap=None if truth is None else gap_to_truth(people, given, truth, case.sets.alone),
        calibration=calibration_curves(people, given, withheld, case.loss, level),
        scatter=tuple(scatter_of_silent(people, given, fitted.base, child_seed(fitting.seed, 5))),
        provenance=provenance(people, case.model, training, fitting, judgement.min_count, time.perf_counter() - start),
        warnings=(
            *seen_in_training,
            *case.notes,
            *recognition_in_words(telling),
            *compared_with_themselves(fitted.comparability),
            *carried_by_one(penalties),
            *little_support,
            *not_known,
        ),
        recognition=recognition,
        comparability=tuple(fitted.comparability),
        within=within,
        exposure=people.exposure,
        coverage=covered,
        cap=judgement.cap,
    )


@dataclass(frozen=True)
class _Case:
    """What there is to judge: people, the model's predictions for them, and the sets to test."""

    people: AuditPeople
    model: AuditedModel
    loss: Loss
    sets: Sets
    mean_prediction: float
    bound: float
    """The margin in units of the prediction."""
    notes: tuple[str, ...]


def _read(
    model: Any, X: Any, y: Any, who: PeopleOptions, judgement: JudgementOptions, fitting: FittingOptions
) -> _Case:
    trees = is_tree_model(model)
    outcome, output = outcome_of_class(model, y, who.target_class)
    people, notes = read_audit_people(
        X,
        outcome,
        consent=consent_of(model) if trees else None,
        wrapper=None if trees else model,
        categories=categories_of(model) if trees else None,
        optional=who.optional,
        not_applicable=who.not_applicable,
        available=who.available,
        weight=who.weight,
        exposure=who.exposure,
        subgroups=who.subgroups,
        clusters=who.clusters,
        zero_as_missing=reads_zero_as_missing(model),
        num_threads=fitting.num_threads,
    )
    loss = choose_loss(judgement.loss, judgement.alpha, model, people.y)
    if judgement.cap is not None:
        people, note = _capped(people, judgement, loss)
        notes += note
    audited = AuditedModel(model, people, output, fitting.num_threads, judgement.cap)
    loss.check(audited.given, people.y)
    if people.exposure is not None and not loss.is_mean:
        raise ValueError(
            "exposure with loss='quantile': means add up over an exposure, quantiles do not. Audit the quantiles of "
            "what the model predicts, without exposure."
        )
    if judgement.relative and not loss.is_mean:
        raise ValueError(
            "relative=True needs a penalty in units of the prediction; that of a quantile is a probability."
        )
    judgement.check_margin(loss.unit_is_probability, _standard_deviation(people))
    if not loss.is_mean:
        _check_no_ties(audited.given, people, judgement.margin)
    if loss.name == "binary" and np.isin(audited.given, (0, 1)).all():
        notes.append("Every prediction is 0 or 1; an audit of decisions needs the probabilities behind them.")
    if np.ptp(audited.given) == 0:
        notes.append(f"The model predicts {audited.given[0]:g} for everybody.")
    if audited.loading:
        notes.append(
            f"The model has a loading of {audited.loading:+.4g} on the scale of raw scores, the same for everybody "
            "(load_to_balance). It is taken out: what is judged are the predictions without it."
        )
    if people.exposure is None and predicts_per_exposure(model):
        notes.append(
            "The model was trained with an exposure and predicts per unit of it, but this audit was given none. Unless "
            "the outcomes are rates and the weights their exposures, give exposure."
        )
    mean = float(np.average(audited.given, weights=people.weight))
    return _Case(people, audited, loss, choose_sets(people, judgement), mean, judgement.bound(mean), tuple(notes))


def _capped(people: AuditPeople, judgement: JudgementOptions, loss: Loss) -> tuple[AuditPeople, list[str]]:
    """Return the people with capped outcomes, and a warning if a model of uncapped ones would look wrong for it.

    The penalty is then about E[min(Y, cap) | …]. For a model of Y that is off by what was cut off, for everybody.
    """
    assert judgement.cap is not None
    if not loss.is_mean or loss.unit_is_probability:
        raise ValueError(f"cap is for amounts, but the loss is {loss.title}. Leave cap out.")
    y = np.minimum(people.y, judgement.cap)
    if np.ptp(y) == 0:
        raise ValueError(f"cap is {judgement.cap:g}, and no outcome is below it; give a larger one.")
    above = float(np.average(people.y > judgement.cap, weights=people.weight))
    cut = float(np.average(people.y - y, weights=people.weight))
    words = (
        f"Outcomes and predictions above {judgement.cap:g} count as {judgement.cap:g} ({above:.2%} of the outcomes). "
        f"That takes {cut:.4g} from the average outcome: a model that was not trained on outcomes capped in this way "
        "seems to tell everybody about so much too much."
    )
    return replace(people, y=y), [words]


def _standard_deviation(people: AuditPeople) -> float:
    mean = np.average(people.y, weights=people.weight)
    return float(np.sqrt(np.average((people.y - mean) ** 2, weights=people.weight)))


def _check_no_ties(f: Array, people: AuditPeople, margin: float) -> None:
    """Refuse a quantile audit where outcomes equal predictions: then P(Y ≤ f) jumps, and τ may lie within the jump."""
    share = float(np.average(people.y == f, weights=people.weight))
    if share > margin / 2:
        raise ValueError(
            f"{share:.1%} of the outcomes equal the predicted quantile and so lie on neither side of it; auditing a "
            "quantile needs continuous outcomes."
        )


@dataclass(frozen=True)
class _Fitted:
    """What comes from models fitted for this audit; by default, nothing."""

    scored: list[MaskScores] = field(default_factory=list)
    informativeness: tuple[Informativeness, ...] = ()
    base: Array | None = None
    """Predictions of a model with base features only."""
    unrestricted: Array | None = None
    """Predictions of a model that may learn from silence."""
    comparability: list[Comparability] = field(default_factory=list)
    directed: list[Directed] = field(default_factory=list)
    """The people of each set, in the direction in which the model seems to err."""


def _fit(case: _Case, training: TrainingData, fitting: FittingOptions, level: float) -> _Fitted:
    people, model, loss = case.people, case.model, case.loss
    masks: list[int | None] = [*case.sets.alone, *([None] if case.sets.pool else [])]
    steps = fitting.folds * (people.consent.n_groups + (2 if training.table is None else 0))
    steps += len({*masks, 0}) * fitting.folds * FITS_PER_MASK
    steps += len(masks) * (fitting.folds + fitting.folds - teaching_folds(fitting.folds))
    done = itertools.count(1)
    with progress_bar("fitting nuisance models", fitting.progress) as report:
        fitter = CrossFitter(people, fitting, lambda: report(min(1.0, next(done) / steps)))
        everybody = fitter.view(0)
        nothing = score_mask(people, model, loss, everybody, 0)
        informative = informativeness(people, nothing, everybody)
        scored, compared, directed = [], [], []
        for mask in masks:
            view = everybody if mask == 0 else fitter.stack(case.sets.pool) if mask is None else fitter.view(mask)
            one = nothing if mask == 0 else score_mask(people, model, loss, view, mask)
            scored.append(one)
            compared.append(comparability(people, loss, view, one, level))
            directed.append(learn_directions(people, loss, view, one))
        base, unrestricted = references(people, loss, fitter, training)
    return _Fitted(scored, tuple(informative), base, unrestricted, compared, directed)
