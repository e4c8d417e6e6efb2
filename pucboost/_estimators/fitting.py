"""Training on tables that ``fit`` has read, without reading them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._arrays import Array
from .._consent import Consent
from .._engines.base import Engine, Hooks
from .._tables.containers import SourceTable, is_frame
from .._tables.sources import RowSource
from .._training.datasets import Dataset
from .._training.request import TrainingRequest, check_categories, ready_to_validate, split_params
from .._training.train import train, train_request


@dataclass(frozen=True)
class FitPeople:
    """A table as given, with its row source, outcomes, weights and exposures."""

    container: Any
    source: RowSource
    label: Array
    weight: Array | None
    exposure: Array | None = None


@dataclass(frozen=True)
class Fitting:
    """All that one call of ``fit`` trains on."""

    engine: Engine
    params: dict[str, Any]
    """Parameters of :func:`pucboost.train`."""
    consent: Consent
    people: FitPeople
    categorical: Any
    """The categorical columns, as in ``lgb.Dataset``."""
    others: list[FitPeople | None]
    """People to validate on; None stands for those to train on."""
    rounds: int
    callbacks: list[Any]
    classes: Array | None
    """The labels of a classifier, which its outcomes are numbers of."""

    def train(self) -> Any:
        """Return the booster; with nothing optional the engine reads the tables itself, if it can."""
        plain = self.engine.trains_plain_datasets and self.consent.n_groups == 0
        return self._train_plain() if plain else self._train_protected()

    def _train_protected(self) -> Any:
        settings, engine_params = split_params(self.params)
        people = self.people
        check_categories(people.source, "X")
        table = SourceTable.of(
            people.source,
            people.label,
            people.weight,
            name="X",
            exposure=people.exposure,
            categorical_feature=self.categorical,
            data=people.container,
        )
        request = TrainingRequest.of(
            self.engine,
            settings,
            engine_params,
            table,
            self.consent,
            self.rounds,
            label_name="y",
            classes=self.classes,
        )
        valid = [self._validation(request, other, number) for number, other in enumerate(self.others)]
        return train_request(request, valid or None, Hooks(callbacks=self.callbacks or None))

    def _validation(
        self, request: TrainingRequest, other: FitPeople | None, number: int
    ) -> tuple[SourceTable | None, str]:
        if other is None:
            return None, "training"
        name = f"eval_set[{number}]"
        table = SourceTable.of(
            other.source, other.label, other.weight, name=name, exposure=other.exposure, data=other.container
        )
        return ready_to_validate(request, table, name), f"valid_{number}"

    def _train_plain(self) -> Any:
        self.engine.check_labels(self.engine.objective(self.params), self.people.label, "y")
        train_set = _plain_dataset(self.people, self.categorical)
        valid_sets = [train_set if other is None else _plain_dataset(other, None) for other in self.others]
        return train(self.params, train_set, self.rounds, valid_sets or None, callbacks=self.callbacks or None)


def _plain_dataset(people: FitPeople, categorical: Any) -> Dataset:
    """Return a Dataset that LightGBM can read: pandas numbers and categories unchanged, other DataFrames as codes.

    ``categorical`` is None for a validation set, which takes names and types from the training set.
    """
    import narwhals.dependencies as nwd

    container, source = people.container, people.source
    if not is_frame(container) or (nwd.is_pandas_dataframe(container) and not source.never_numbers):
        named = {} if categorical is None else {"categorical_feature": categorical}
        return Dataset(container, people.label, weight=people.weight, exposure=people.exposure, **named)
    numbers, names = source.window(0, source.n_rows), source.feature_names or []
    if categorical is None:
        return Dataset(numbers, people.label, weight=people.weight, exposure=people.exposure)
    declared = [] if categorical == "auto" else [names.index(c) if isinstance(c, str) else c for c in categorical]
    columns = sorted({*declared, *source.categorical})
    return Dataset(
        numbers,
        people.label,
        weight=people.weight,
        exposure=people.exposure,
        feature_name=names,
        categorical_feature=columns,
    )
