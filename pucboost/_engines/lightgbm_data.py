"""What LightGBM trains with: masked rows as a Dataset, rare categories as one, the network of workers.

``lgb.train`` and ``lgb.cv`` get a :class:`VirtualDataset`, which builds itself from the stream. They treat it like any
other Dataset.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._kernels.rows import append_nonzero_columns, count_nonzero_columns
from .._tables.sources import SourceTable
from .._virtual.plan import BinSample
from .._virtual.rare_categories import RareCategories, RowsPerPerson
from .._virtual.rows import MaskedRows, VirtualTable
from .base import Network
from .names import number_of, value_of, without


class MaskedSequence(lgb.Sequence):
    """Masked rows behind LightGBM's public interface for data that do not fit into memory.

    ``as_given`` are the same rows with all categories, for scoring with a model that was trained on them.
    """

    def __init__(self, rows: MaskedRows, as_given: MaskedRows) -> None:
        self.rows, self.as_given = rows, as_given
        self.batch_size = rows.batch_rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Array:
        got = self.rows[index]
        return got.astype(np.float64) if got.ndim == 1 else got


class VirtualDataset(lgb.Dataset):
    """A Dataset over the virtual rows of a table.

    LightGBM can construct it through its public ``Sequence`` interface alone. The underscored methods below only
    replace slow or memory-hungry steps of that path. If LightGBM renames the originals, the replacements are no longer
    called and the public path remains. ``weight_scale`` is a factor on all weights. ``keep_copy_weight`` keeps the copy
    weights for a callable objective, and ``rare`` are categories that are one to the trees. The ``reference`` of a
    validation set is the training set.
    """

    def __init__(
        self,
        virtual: VirtualTable,
        *,
        weight_scale: float = 1.0,
        keep_copy_weight: bool = False,
        rare: RareCategories | None = None,
        reference: lgb.Dataset | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        table, scores = virtual.table, virtual.init_score()
        self.rare = rare
        pooled = virtual if rare is None else rare.pooled(virtual)
        super().__init__(
            MaskedSequence(pooled.rows, virtual.rows),
            label=virtual.label(),
            weight=virtual.weight(weight_scale),
            init_score=None if scores is None else scores.ravel(order="F"),
            reference=reference,
            # A validation set takes both from its reference.
            feature_name=table.feature_name if reference is None else "auto",
            categorical_feature=table.categorical_feature if reference is None else "auto",
            params={**table.params, **(params or {})},
        )
        self.pandas_categorical = table.pandas_categorical
        self.copy_weight = virtual.copy_weight(weight_scale) if keep_copy_weight else None
        self._user_weight = virtual.user_weight() if keep_copy_weight else None
        self._constructing = self._in_objective = False

    def validation(self, virtual: VirtualTable) -> VirtualDataset:
        return VirtualDataset(virtual, rare=self.rare, reference=self)

    @contextmanager
    def as_seen_by_objective(self) -> Iterator[VirtualDataset]:
        """Show only the user's weights: a callable objective applies them, and pucboost applies the copy weights."""
        shown = self.weight
        self.weight, self._in_objective = self._user_weight, True
        try:
            yield self
        finally:
            self.weight, self._in_objective = shown, False

    def get_field(self, field_name: str) -> Array | None:
        if field_name == "weight" and self._in_objective:
            return self._user_weight
        return super().get_field(field_name)

    @functools.wraps(lgb.Dataset._lazy_init)
    def _lazy_init(self, *args: Any, **kwargs: Any) -> lgb.Dataset:  # type: ignore[override]
        self._constructing = True
        try:
            super()._lazy_init(*args, **kwargs)
        finally:
            self._constructing = False
        if self.reference is not None and self.weight is None and self.get_field("weight") is not None:
            # Rows pushed after a reference that has weights start with weights of 0, not 1; metrics would be NaN.
            self.set_field("weight", np.ones(self.num_data(), dtype=np.float32))
        return self

    def get_params(self) -> dict[str, Any]:
        """Return parameters as LightGBM does; during construction, return all of them.

        From a matrix LightGBM constructs with all: `seed` decides which rows are sampled for the bins,
        `min_data_in_leaf` which features are dropped as useless. From a Sequence it uses only some of them, but the
        stream must give the same result as the table.
        """
        return dict(self.params or {}) if self._constructing else super().get_params()

    def _Dataset__init_from_seqs(self, seqs: list[MaskedSequence], ref_dataset: Any) -> lgb.Dataset:  # noqa: N802
        """Construct as fast as from a matrix; the original fetches up to 200,000 sample rows one by one."""
        (sequence,) = seqs
        rows = sequence.rows
        if ref_dataset is not None:
            self._init_from_ref_dataset(len(rows), ref_dataset)
        else:
            sampled = self._create_sample_indices(total_nrow=len(rows))
            values, positions = _nonzero_sample_columns(rows, sampled)
            self._init_from_sample(values, positions, len(sampled), len(rows))
        for _, batch in rows.batches():
            self._push_rows(batch)
        return self

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        """Score the virtual rows with ``init_model`` batch by batch; the original materialises the table."""
        if predictor is None or not isinstance(data, MaskedSequence):
            return super()._set_init_score_by_predictor(predictor, data, used_indices)
        scores = np.empty((len(data), predictor.num_class), order="F")
        for start, batch in data.as_given.batches():
            raw = predictor.predict(data=batch, raw_score=True)
            scores[start : start + len(batch)] = raw.reshape(len(batch), -1)
        return self.set_init_score(scores.ravel(order="F"))


def bin_reference(
    virtual: VirtualTable, sample: BinSample, params: dict[str, Any], rare: RareCategories | None
) -> lgb.Dataset:
    """Return the reference Dataset that fixes the bins for all workers; each makes it from the same sample.

    LightGBM itself bins each feature on one machine, from the rows there: a column that nobody shares there is lost.
    """
    table = virtual.table
    reference = lgb.Dataset(
        sample.rows if rare is None else rare.pool(sample.rows),
        label=np.zeros(len(sample.rows), dtype=np.float32),
        feature_name=table.feature_name,
        categorical_feature=table.categorical_feature,
        params={**table.params, **params},
    ).construct()
    reference.pandas_categorical = table.pandas_categorical  # Datasets that refer to it take them from here
    return reference


class FoldRows(lgb.Dataset):
    """Stand-in for the table while ``lgb.cv`` makes folds: it has row numbers and labels, but no features."""

    def __init__(self, label: Array) -> None:
        # One feature with two values, so that LightGBM does not warn about useless data.
        feature = (np.arange(len(label), dtype=np.float32) % 2)[:, None]
        super().__init__(feature, label=label, params={"verbosity": -1, "min_data_in_bin": 1})

    def _update_params(self, params: dict[str, Any] | None) -> lgb.Dataset:
        return self  # the parameters belong to the real table

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        return self  # scored on the virtual rows of each fold


def _nonzero_sample_columns(rows: MaskedRows, sampled: Array) -> tuple[list[Array], list[Array]]:
    """Return, for each column, the non-zero values among the sampled virtual rows and their places in the sample.

    An optional column that all of them happen to share lacks its first one. LightGBM would read what others withhold as
    the number 0.
    """
    blocks = [(start, sampled[start : start + rows.batch_rows]) for start in range(0, len(sampled), rows.batch_rows)]
    counts = np.zeros(rows.source.n_columns, dtype=np.int64)
    for _, index in blocks:
        count_nonzero_columns(rows.take(index), counts)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    values, positions = np.empty(bounds[-1], dtype=np.float64), np.empty(bounds[-1], dtype=np.int32)
    next_slot = bounds[:-1].copy()
    for start, index in blocks:
        append_nonzero_columns(rows.take(index), start, next_slot, values, positions)
    cut = [slice(lo, hi) for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    of_column, places = [values[part] for part in cut], [positions[part] for part in cut]
    for j in rows.consent.group_columns.tolist():
        if not np.isnan(of_column[j]).any():
            others = places[j] > 0
            of_column[j] = np.append(np.nan, of_column[j][others])
            places[j] = np.append(np.int32(0), places[j][others])
    return of_column, places


# ----- rare categories
#
# LightGBM sends missing values to the right, with every category that does not go left. A category with fewer than
# ``cat_smooth`` rows in a leaf, or without a bin, never goes left, so no number of trees tells its sharers from people
# who withhold the column. (XGBoost tells all categories apart.) Such categories are pooled into one while trees grow;
# law 3, stream = table, holds up to this pooling. It happens here, inside the engine, so that sketches and anchors see
# what people gave; ``spell_out`` writes the categories into the finished model. A booster that keeps its training data
# is left as it is, and reads the rare categories as missing. A wider margin than that of ``least_people`` cost sharers
# accuracy and gained the silent nothing.

_SURELY = 3.0
"""A category whose expected count in a sample is this multiple of the required count is hardly ever too rare there."""

_ROWS = 40
"""Rows of the small Dataset from which LightGBM reads columns and parameters."""
_HARDLY_ANY = 1e-9


def rare_categories(train: VirtualTable, params: Mapping[str, Any]) -> RareCategories | None:
    """Return the categories of optional columns that LightGBM could not tell from missing values; None if none can be.

    Workers that train together must agree on them: with a plan by its sample, without one there are none.
    """
    sample, params = train.bin_sample, {**train.table.params, **params}
    if not train.rows.consent.n_groups or (sample is None and is_networked(params)):
        return None
    columns = named_categories(train.table, params)
    if not columns:
        return None
    if sample is None:
        return RareCategories.of(train, columns, lambda group: least_people(train, params, group))
    in_leaf, in_bin = _needed_rows(params)
    return RareCategories.of_sample(train, columns, sample, in_leaf, _SURELY * in_bin)


def named_categories(table: SourceTable, params: Mapping[str, Any]) -> list[int]:
    """Return the columns of a table that LightGBM reads as categories."""
    given = value_of({**table.params, **params}, "categorical_feature")
    if not given and (table.categorical_feature in ("auto", None) or not len(table.categorical_feature)):
        return []
    quiet = {"verbosity": -1, "num_threads": 1} | ({} if given is None else {"categorical_feature": given})
    return categorical_columns(lgb.Booster(quiet, columns_only({}, table)))


def least_people(train: VirtualTable, params: Mapping[str, Any], group: int, *, bins_of_people: bool = False) -> float:
    """Return how many people must share a category so that trees can tell it from others.

    A leaf uses a category that has ``cat_smooth`` rows in it, and a category gets a bin if it has ``min_data_in_bin``
    among the rows that are sampled for the bins: virtual rows, or the people themselves (``bins_of_people``).
    """
    per_person, (in_leaf, in_bin) = RowsPerPerson.of(train, group), _needed_rows(params)
    least = in_leaf / max(per_person.in_tree, _HARDLY_ANY)
    rows, each = (train.people, 1.0) if bins_of_people else (len(train), per_person.in_table)
    share = number_of(params, "bin_construct_sample_cnt", 200_000) / rows
    return least if share >= 1.0 else max(least, _SURELY * in_bin / max(share * each, _HARDLY_ANY))


def _needed_rows(params: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many rows of a category a leaf needs to use it, and a sample to give it a bin."""
    in_bin = max(number_of(params, "min_data_in_bin", 3), 1.0)
    return max(number_of(params, "cat_smooth", 10.0), in_bin), in_bin


def categorical_columns(booster: lgb.Booster) -> list[int]:
    """Return the positions of the categorical columns, as LightGBM understood table and parameters."""
    found = re.search(r"^\[categorical_feature: (?:(name):)?(.+)\]$", booster.model_to_string(), re.MULTILINE)
    if not found:
        return []
    words = found[2].split(",")
    return [booster.feature_name().index(word) if found[1] else int(word) for word in words]


def columns_only(params: Mapping[str, Any], table: SourceTable, n_classes: int = 1) -> lgb.Dataset:
    """Return a small Dataset with the columns of a table and other values, to make a Booster from."""
    column = np.arange(_ROWS, dtype=np.float64)
    # Objectives and metrics look at the labels: those of amounts want them above 0, those of probabilities at most 1.
    label = column % n_classes if n_classes > 1 else np.ones(_ROWS)
    data = lgb.Dataset(
        np.tile(column[:, None], table.source.n_columns),
        label,
        feature_name=table.names,
        categorical_feature=table.categorical_feature,
        params={"verbosity": -1, "num_threads": 1},
    )
    data.pandas_categorical = table.pandas_categorical
    return data


# ----- several machines
#
# LightGBM takes a closed connection for a message of no bytes, and reads on for ever in a loop in C++ that nothing can
# interrupt. So a worker that fails resets its connections, and if a worker is lost, the sockets of the others are
# replaced by something that cannot be read. LightGBM waits two minutes for a worker that does not come, so workers meet
# before the network is opened, and it is opened before anything else can fail.

_DEFAULTS = {
    "machines": "",
    "machine_list_filename": "",
    "num_machines": "1",
    "local_listen_port": "12400",
    "time_out": "120",
    "tree_learner": "serial",
}
"""Values of the parameters of a network on a single machine."""

_LINE = re.compile(rf"^\[({'|'.join(_DEFAULTS)}): [^\n]*\]$", re.MULTILINE)

_NOTHING = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=0
objective=regression
feature_names=Column_0
feature_infos=none
tree_sizes=

end of trees

feature_importances:

parameters:

end of parameters
"""
"""A model without trees: LightGBM's network functions are methods of boosters."""

_CONNECTED: list[tuple[int, tuple[int, ...]]] = []
"""The port of this process and those of all workers, while they are connected."""


class LightGBMNetwork(Network):
    """Sockets between all pairs of machines, one set of them per process."""

    errors: ClassVar[tuple[type[Exception], ...]] = (lgb.basic.LightGBMError,)

    def check_params(self, params: Mapping[str, Any]) -> None:
        """Refuse lists of machines: all workers of the cluster take part."""
        for name in ("machines", "machine_list_filename", "num_machines"):
            if value_of(params, name) is not None:
                raise ValueError(f"{name} is not possible here: the workers find each other. Leave it out.")

    def endpoint(self, host: str, rank: int, n_workers: int, params: Mapping[str, Any]) -> str:
        """Return address and port, a free one unless given; nothing listens there until all workers join."""
        asked = value_of(params, "local_listen_port")
        if asked is not None:
            return f"{host}:{int(asked) + rank}"
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as free:
            free.bind(("", 0))
            return f"{host}:{free.getsockname()[1]}"

    @contextmanager
    def joined(self, endpoints: Sequence[Any], rank: int) -> Iterator[dict[str, Any]]:
        """Open the sockets, and close them in any case, so that the other workers fail, too."""
        if len(endpoints) == 1:
            yield {}
            return
        holder = lgb.Booster(model_str=_NOTHING)
        port = int(endpoints[rank].rpartition(":")[2])
        _CONNECTED.append((port, tuple(int(one.rpartition(":")[2]) for one in endpoints)))
        try:
            holder.set_network(list(endpoints), port, 1, len(endpoints))  # a minute to find each other
            for connection in _connections():
                _wait_for_ever(connection)
            yield {"num_machines": len(endpoints), "tree_learner": "data"}
        except BaseException:
            for connection in _connections():
                _reset_when_closed(connection)
            raise
        finally:
            holder.free_network()
            _CONNECTED.clear()

    def sever(self) -> None:
        """Replace LightGBM's sockets by the null device, so that it fails to read from them."""
        for connection in _connections():
            _reset_when_closed(connection)
            with suppress(OSError):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, connection)
                os.close(nothing)


def _connections() -> list[int]:
    """Return the file descriptors of LightGBM's connections, found by their ports: LightGBM does not expose them."""
    folder = Path("/dev/fd")
    if not _CONNECTED or not folder.is_dir():
        return []
    port, ports = _CONNECTED[-1]
    found = []
    for entry in folder.iterdir():
        with suppress(OSError, ValueError), _opened(int(entry.name)) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                here, there = one.getsockname()[1], one.getpeername()[1]
                if here == port or there in ports:
                    found.append(int(entry.name))
    return found


@contextmanager
def _opened(descriptor: int) -> Iterator[socket.socket]:
    """Yield a duplicate of a socket, and close it; raise OSError if the descriptor is not a socket."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOTSOCK, "not a socket")
    copy = os.dup(descriptor)
    try:
        one = socket.socket(fileno=copy)
    except BaseException:
        os.close(copy)
        raise
    with one:
        yield one


def _wait_for_ever(connection: int) -> None:
    """Remove the time limit of a connection.

    Connections that LightGBM accepts inherit the limit of the listener: a worker whose rows take a minute longer would
    count as lost, and a process stopped for a moment (SIGSTOP) would fail with "Interrupted system call".
    """
    with suppress(OSError), _opened(connection) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def _reset_when_closed(connection: int) -> None:
    """Make the other side see an error when the connection is closed, not just its end."""
    with suppress(OSError), _opened(connection) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_networked(params: Mapping[str, Any]) -> bool:
    return bool(value_of(params, "machines")) or int(value_of(params, "num_machines", 1)) > 1


def without_network(params: Mapping[str, Any]) -> dict[str, Any]:
    return functools.reduce(without, _DEFAULTS, dict(params))


def local_text(text: str) -> str:
    """Return a model's text without addresses and ports, as if it were trained on one machine."""
    return _LINE.sub(lambda found: f"[{found[1]}: {_DEFAULTS[found[1]]}]", text)


def local_booster(booster: lgb.Booster) -> lgb.Booster:
    local = lgb.Booster(model_str=local_text(booster.model_to_string(num_iteration=-1)))
    local.best_iteration, local.best_score = booster.best_iteration, booster.best_score
    local.pandas_categorical = booster.pandas_categorical
    local.params = without_network(booster.params)
    return local
