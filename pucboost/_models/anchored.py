"""Anchored models: people who share nothing get exactly the prediction of an existing model.

An insurer who must not touch the legacy premium needs this. The model's raw score is

    anchor(b)                     for people who share nothing,
    anchor(b) + trees(b, a, z)    for everybody else.

The trees start from the anchor's score and grow only on virtual rows that share something. The anchor always sees the
table with everything optional erased.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._common import Array
from .._consent import Consent
from .._engines import BOOSTER_CLASSES, boosters_named, boosters_of, is_booster
from .._engines.base import Output
from .._losses import LOSSES, Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from .._persistence import pickled, sealed
from .._tables.files import write_whole
from .._tables.sources import eager, row_source
from .anchors import (
    CONTAINERS,
    METHODS,
    Anchor,
    AnchorQuestion,
    AnchorScores,
    BoosterAnchor,
    EstimatorAnchor,
    is_statsmodels,
)
from .schema import TrainingSummary, categories_of, check_names, model_schema, read_schema

ANCHORED_KEY = "pucboost_anchored"
"""The first key of the file of an anchored model, by which it is recognised."""
_PICKLE = "Pickle the model"
_MORE_THAN_TREES = "its prediction is more than its trees, which are in .booster."
_HARMLESS = ("sklearn.compose._column_transformer._RemainderColsList",)
"""A list of columns, which scikit-learn 1.6 has in every ColumnTransformer and no skops knows. Without it the command
line could not read such an anchor."""
_ONE_SCORE: dict[str, Objective] = {
    "regression": SquaredError(),
    "binary": Logistic(),
    "cross_entropy": Logistic(soft_labels=True),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(),
}
"""By LightGBM's main name. The constants of a loss are the defaults: models do not keep them in one way."""


@dataclass(frozen=True, repr=False)
class AnchoredModel:
    """The model that ``train`` returns with ``anchor=``; it predicts, pickles and saves like a booster.

    Parameters
    ----------
    anchor
        The model for people who share nothing.
    booster
        The trees that are added for everybody else.
    objective
        The loss, which defines the link.
    consent, puc_summary
        As on a booster.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); y = X.sum(axis=1)
    >>> X[::3, 1] = np.nan
    >>> legacy = lgb.train({"verbosity": -1}, lgb.Dataset(X[:, :1], y, feature_name=["Column_0"]), 10)
    >>> model = puc.train({"optional": [1], "anchor": legacy, "verbosity": -1}, (X, y), 10)
    >>> isinstance(model, puc.typing.AnchoredModel), model.consent.group_names
    (True, ('Column_1',))
    >>> bool((model.predict(X[::3]) == legacy.predict(X[::3, :1])).all())     # exactly, for people who share nothing
    True
    """

    anchor: Anchor
    booster: Any
    objective: Objective
    consent: Consent
    puc_summary: TrainingSummary

    def __reduce__(self) -> Any:
        return pickled("AnchoredModel", vars(self))

    # ----- predictions

    def predict(
        self,
        X: Any,
        *,
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_contrib: bool = False,
        **others: Any,
    ) -> Array:
        """Return predictions; people who share nothing get exactly the anchor's.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score
            Return raw scores instead of predictions.
        num_iteration
            How many rounds of trees to add; None, 0 or less: those up to the best one.
        pred_contrib
            Return what each column adds to the raw score (SHAP values of the trees), and in a last column the rest:
            the anchor's raw score and the trees' own constant. Rows add up to raw scores. For people who share nothing
            the last column is the anchor's raw score and all else is 0. With several classes, class after class.
        """
        if others:
            raise TypeError(f"predict of an anchored model takes no {', '.join(others)}: {_MORE_THAN_TREES}")
        X, codes = eager(X), categories_of(self)
        source = row_source(X, codes)
        self.consent.check_table(source)
        start, output = self.anchor.scores(X, codes), Output(raw_score, 0, num_iteration, pred_contrib=pred_contrib)
        parts = [
            self.output(start.of(slice(lo, hi)), self.consent.without_lacking(source.window(lo, hi)), output)
            for lo, hi in source.blocks()
        ]
        return np.concatenate(parts)

    def output(self, start: AnchorScores, rows: Array, output: Output) -> Array:
        """Return an output for a matrix of numbers and category codes, given the anchor's scores of its rows."""
        if output.pred_leaf or output.start_iteration > 0:
            name = "pred_leaf" if output.pred_leaf else "start_iteration"
            raise TypeError(f"predict of an anchored model takes no {name}: {_MORE_THAN_TREES}")
        wanted = output.num_iteration
        rounds = None if wanted is None or wanted <= 0 else int(wanted)
        if output.pred_contrib:
            return self._contributions(start, rows, rounds)
        return self.add_trees(start, rows, raw_score=output.raw_score, rounds=rounds)

    def add_trees(
        self, start: AnchorScores, rows: Array, *, raw_score: bool = False, rounds: int | None = None
    ) -> Array:
        """Return predictions for a matrix of numbers and category codes, given the anchor's scores of its rows."""
        out = np.array(start.raw if raw_score else start.response)
        some = self._sharing(rows)
        if len(some):
            raw = boosters_of(self.booster).add_trees(self.booster, rows[some], start.raw[some], rounds)
            out[some] = raw if raw_score else self.objective.response(raw)
        return out

    def _contributions(self, start: AnchorScores, rows: Array, rounds: int | None) -> Array:
        width = self.num_feature() + 1
        out = np.zeros((len(rows), self.objective.n_scores, width))
        out[:, :, -1] = start.raw.reshape(len(rows), -1)
        some = self._sharing(rows)
        if len(some):
            values = boosters_of(self.booster).contributions(self.booster, rows[some], start.raw[some], rounds)
            out[some] = values.reshape(len(some), -1, width)
        return out.reshape(len(rows), -1)

    def _sharing(self, rows: Array) -> Array:
        """Return the numbers of the rows that share something."""
        return np.flatnonzero(self.consent.availability(rows) != 0)

    # ----- the methods of a booster

    @property
    def best_iteration(self) -> int:
        """The number of rounds that predictions use: with early stopping up to the best one, else all."""
        return boosters_of(self.booster).facts(self.booster).used_rounds

    def current_iteration(self) -> int:
        """Return how many rounds there are."""
        return boosters_of(self.booster).facts(self.booster).rounds

    def num_trees(self) -> int:
        """Return how many trees are added to the anchor: one per round and class."""
        return boosters_of(self.booster).facts(self.booster).n_trees

    def num_feature(self) -> int:
        """Return the number of columns."""
        return len(self.consent.feature_names)

    def feature_name(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.consent.feature_names)

    def feature_importance(self, importance_type: Literal["split", "gain"] = "split") -> Array:
        """Return how much the trees use each column; what the anchor makes of it does not count.

        Parameters
        ----------
        importance_type
            ``"split"``: the number of splits on the column. ``"gain"``: their total gain.
        """
        if importance_type not in ("split", "gain"):
            raise ValueError(f"importance_type must be 'split' or 'gain', got {importance_type!r}.")
        return boosters_of(self.booster).importance(self.booster, importance_type)

    def save_model(self, filename: str | Path) -> None:
        """Write the model into a file that :func:`pucboost.load_model` reads.

        Parameters
        ----------
        filename
            Written whole or not at all. An estimator as anchor needs skops.
        """
        kept = {
            ANCHORED_KEY: model_schema(self.consent, self.puc_summary),
            "anchor": _anchor_to_dict(self.anchor),
            "trees": _booster_to_dict(self.booster),
            "objective": {"class": type(self.objective).__name__, "fields": asdict(self.objective)},
        }
        write_whole(Path(filename), sealed(kept).encode())

    def __repr__(self) -> str:
        trees = f"{self.num_trees()} trees for people who share, objective {self.objective.name!r}"
        return f"AnchoredModel(\n  anchor: {self.anchor.described()},\n  trees: {trees},\n  {self.consent!r}\n)"

    if not TYPE_CHECKING:  # a checker would allow every name

        def __getattr__(self, name: str) -> Any:
            """Point to the trees, if a booster has the attribute."""
            hint = ""
            if not name.startswith("_") and hasattr(self.booster, name):
                hint = (
                    ". Its trees, .booster, have it, but they are only a part of the model: they are added to .anchor "
                    "for people who share"
                )
            raise AttributeError(f"'AnchoredModel' object has no attribute {name!r}{hint}.")


def model_from_entries(kept: Mapping[str, Any], where: str, trusted: Sequence[str]) -> AnchoredModel:
    """Return the model of a file's entries; errors name ``where`` it was found.

    ``trusted`` are types that the anchor may have besides those that skops trusts.
    """
    absent = [name for name in ("anchor", "trees", "objective") if name not in kept]
    if absent:
        raise ValueError(f"{where!r} is the file of an anchored model without its {absent[0]}. The file is damaged.")
    consent, summary = read_schema(kept[ANCHORED_KEY], where)
    objective = _objective_from_dict(kept["objective"], where)
    anchor = _anchor_from_dict(kept["anchor"], consent, objective, where, trusted)
    booster = _booster_from_dict(kept["trees"], where)
    check_names(consent, booster, where)
    return AnchoredModel(anchor, booster, objective, consent, summary)


def is_tree_model(model: Any) -> bool:
    return is_booster(model) or isinstance(model, AnchoredModel)


def trees_of(model: Any) -> Any:
    """Return the booster of an anchored model, else the model itself."""
    return model.booster if isinstance(model, AnchoredModel) else model


def loss_of(model: Any) -> Objective | None:
    """Return the loss of a booster or an anchored model; None if it is not known here."""
    if isinstance(model, AnchoredModel):
        return model.objective
    boosters = boosters_of(model)
    facts = boosters.facts(model)
    if facts.loss == "multiclass":
        row = np.full((1, facts.n_columns), np.nan)
        return Softmax(boosters.predict(model, row, raw_score=True).size)
    if facts.loss == "quantile" and len(facts.quantile_levels) == 1:
        return Quantile(facts.quantile_levels[0])
    return _ONE_SCORE.get(facts.loss or "")


# ----- the parts of an anchored model as plain data: its trees, its loss and its anchor
#
# Estimators go through skops, which keeps them as data and loads only types that are trusted. A pickle would run
# whatever is in the file.


def _booster_to_dict(booster: Any) -> dict[str, str]:
    boosters = boosters_of(booster)
    return {"engine": boosters.name, "model": boosters.to_text(booster)}


def _booster_from_dict(kept: Mapping[str, str], where: str) -> Any:
    names = {name: name for name in BOOSTER_CLASSES.values()}
    name = _known(names, kept.get("engine"), "boosters of the engine", where)
    return boosters_named(name).from_plain_file(kept["model"].encode())


def _objective_from_dict(kept: Mapping[str, Any], where: str) -> Objective:
    loss = _known(LOSSES, kept.get("class"), "the loss", where)
    try:
        objective: Objective = loss(**kept["fields"])
    except TypeError as error:
        raise ValueError(
            f"{where!r} has parameters of its loss that this version of pucboost does not know."
        ) from error
    return objective


def _known(known: Mapping[str, Any], name: Any, what: str, where: str) -> Any:
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{where!r} has {what} {name!r}, which this version of pucboost does not know; it knows "
            f"{', '.join(sorted(known))}. The file is damaged, or of a later version."
        )
    return known[name]


def _anchor_to_dict(anchor: Anchor) -> dict[str, Any]:
    """Return an anchor as plain data; raise if it cannot be written."""
    if isinstance(anchor, BoosterAnchor):
        return _booster_to_dict(anchor.model)
    if isinstance(anchor, EstimatorAnchor):
        return {"skops": _with_skops(anchor), "question": asdict(anchor.question)}
    raise ValueError(
        f"The anchor is a callable, which cannot be written into a model file. {_PICKLE} yourself, or make the anchor "
        "a booster or an estimator of scikit-learn."
    )


def _anchor_from_dict(
    kept: Mapping[str, Any], consent: Consent, objective: Objective, where: str, trusted: Sequence[str]
) -> Anchor:
    if "skops" not in kept:
        return BoosterAnchor(_booster_from_dict(kept, where), consent, objective)
    return EstimatorAnchor(
        _trusted(base64.b64decode(kept["skops"]), where, trusted),
        consent,
        objective,
        _question(kept["question"], where),
    )


def _question(kept: Mapping[str, Any], where: str) -> AnchorQuestion:
    if kept["method"] not in METHODS or kept["container"] not in CONTAINERS:
        raise ValueError(
            f"{where!r} asks its anchor by {kept['method']!r} about a table of kind {kept['container']!r}; this "
            f"version of pucboost knows {', '.join(METHODS)} and {', '.join(CONTAINERS)}."
        )
    columns, constant = kept["columns"], kept["constant"]
    return AnchorQuestion(
        kept["method"],
        None if columns is None else tuple(int(j) for j in columns),
        kept["container"],
        None if constant is None else (int(constant[0]), str(constant[1])),
    )


def _with_skops(anchor: EstimatorAnchor) -> str:
    """Return an estimator as text; raise if skops cannot write it, or cannot read what it has written."""
    if is_statsmodels(anchor.model):
        raise ValueError(
            f"The anchor ({anchor.name}) cannot be written into a model file: skops does not know statsmodels. "
            f"{_PICKLE} yourself, or make the anchor an estimator of scikit-learn."
        )
    skops = _skops("write")
    try:
        data = skops.dumps(anchor.model)
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:  # types outside skops raise errors of all kinds, lambdas only when they are read
        raise ValueError(
            f"The anchor ({anchor.name}) cannot be written into a model file: skops fails with {error!s}. {_PICKLE} "
            "yourself, or build the anchor from estimators of scikit-learn."
        ) from error
    return base64.b64encode(data).decode("ascii")


def _trusted(data: bytes, where: str, trusted: Sequence[str]) -> Any:
    """Return the estimator in a file if all its types are trusted."""
    skops = _skops("read")
    trusted = [*trusted, *_HARMLESS]
    unknown = [name for name in skops.get_untrusted_types(data=data) if name not in trusted]
    if unknown:
        raise ValueError(
            f"The anchor in {where!r} has types that are not trusted: {', '.join(unknown)}. To load them runs their "
            f"code. If you trust the file, call load_model({where!r}, trusted={unknown!r})."
        )
    return skops.loads(data, trusted=trusted)


def _skops(verb: str) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"To {verb} a model whose anchor is an estimator, pucboost needs skops: pip install 'pucboost[skops]'."
        ) from error
    return skops.io
