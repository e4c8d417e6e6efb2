"""From gradients to trees: bags, whole-number gradients, growth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._kernels.compiling import said_if_compiled_now
from ..._kernels.masks import counter_hash, stream_key
from ..._kernels.native import memory
from ..._kernels.native.bags import PEOPLE_PER_BLOCK, PROBABILITY_BITS, count_bag, gather_codes, write_bag
from ..._kernels.native.categories import CategoryRules
from ..._kernels.native.growth import grow_tree
from ..._kernels.native.histograms import MEAN_LEVELS, MOST_LEVELS, STRIDE, gradient_sizes, pack_gradients
from ..._kernels.native.leaf_outputs import Penalties
from ..._virtual.allocation import seed_bits
from .bins import Bins
from .bundles import Layout
from .losses import Filler, Picks
from .parameters import GrowthParams
from .pool import Pool
from .scoring import add_tree
from .team import Team
from .trees import CodeTree, Tree

_STREAM_BAG, _STREAM_FEATURES, _STREAM_TREE = np.uint64(11), np.uint64(12), np.uint64(13)
FEW_BLOCKS = 8
"""Fewer blocks or chunks are not worth a second thread."""

_CHUNK = 4096
"""Rows per chunk of :func:`gradient_sizes`."""


class Grower:
    """Grows the trees of one training.

    Parameters
    ----------
    pool, bins, layout
        The people and their copies, in codes.
    params
        How trees grow.
    filler
        The gradients.
    share
        φ: the share of the pool that each tree grows on, on top of the user's own row sampling.
    team
        The threads; they do not change the result.
    """

    def __init__(
        self, pool: Pool, bins: Bins, layout: Layout, params: GrowthParams, filler: Filler, share: float, team: Team
    ) -> None:
        self.pool, self.layout, self.params, self.filler, self.team = pool, layout, params, filler, team
        self.learning_rate = params.learning_rate
        users = params.bagging_fraction if params.bagging_freq > 0 else 1.0
        self._probability = max(1, round(2**PROBABILITY_BITS * min(1.0, users * share)))
        self._bag_rounds = params.bagging_freq if users < 1.0 or share == 1.0 else 1
        self._drawn = -1
        self._picks = Picks(*np.empty((2, 0), dtype=np.uint32))
        self._codes = self._other_codes = np.empty((0, layout.words), dtype=np.uint64)
        self._packed = self._other_packed = np.empty(0, dtype=np.int64)
        self._memory: tuple[Array, ...] = (self._picks.rows,)
        self._features = _features(bins, layout, params)
        n_codes = np.asarray(layout.n_codes, dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(n_codes + 1)))
        self._cells = memory.Cells(starts[:-1].astype(np.int64), n_codes)
        self._n_cells = int(starts[-1])
        self._shared = self._make_shared()
        self._leaves = [_leaves(params.num_leaves, len(layout.column), params.intermediate) for _ in range(team.size)]
        self._scratch = [_scratch(len(layout.column)) for _ in range(team.size)]
        self._penalties = Penalties(
            params.lambda_l1, params.lambda_l2, params.max_delta_step, params.path_smooth,
            plain=not any((params.lambda_l1, params.max_delta_step, params.path_smooth, *params.monotone_constraints)),
        )  # fmt: skip
        self._rules = CategoryRules(
            params.max_cat_to_onehot, params.max_cat_threshold, params.cat_smooth, params.cat_l2,
            float(params.min_data_per_group),
        )  # fmt: skip

    def step(self, number: int) -> list[Tree]:
        """Grow the trees of one round, one for each class, and add them to the scores of the pool."""
        with said_if_compiled_now(grow_tree, "the native engine"):
            return self._step(number)

    def _step(self, number: int) -> list[Tree]:
        self._draw(number)
        self.filler.begin_round()
        trees = [self._grow(number, k) for k in range(len(self.pool.scores))]
        for k, tree in enumerate(trees):  # softmax gradients need the scores of all classes as they were
            add_tree(self.pool, self.layout, tree.code, tree.leaf_value, k, self.team)
        return trees

    def _draw(self, number: int) -> None:
        """Draw the bag of a round; it is kept as long as the user's bagging frequency says."""
        draw = number // max(1, self._bag_rounds) if self._probability < 2**PROBABILITY_BITS else 0
        if draw == self._drawn:
            return
        self._drawn = draw
        pool = self.pool
        key = _key(self.params.bagging_seed, _STREAM_BAG, draw)
        blocks = -(-len(pool.label) // PEOPLE_PER_BLOCK)
        counts = np.empty(blocks, dtype=np.int64)
        chance = np.uint64(self._probability)
        where = (key, chance, pool.layer_n, pool.layer_start)
        self.team.run_ranges(lambda lo, hi: count_bag(*where, lo, hi, counts), blocks, FEW_BLOCKS)
        starts = np.concatenate(([0], np.cumsum(counts)))
        self._fit_buffers(int(starts[-1]))
        rows, people = self._picks
        self.team.run_ranges(lambda lo, hi: write_bag(*where, starts, lo, hi, rows, people), blocks, FEW_BLOCKS)

    def _fit_buffers(self, n: int) -> None:
        """Make the buffers n rows long; they are made anew only if the memory at hand is too small."""
        if n > len(self._memory[0]):
            room = n if self._probability == 2**PROBABILITY_BITS else n + 4 * math.isqrt(n) + 64
            words = self.layout.words
            self._memory = (
                np.empty(room, dtype=np.uint32), np.empty(room, dtype=np.uint32),
                np.empty((room, words), dtype=np.uint64), np.empty((room, words), dtype=np.uint64),
                np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64),
            )  # fmt: skip
        rows, people, self._codes, self._other_codes, self._packed, self._other_packed = (
            part[:n] for part in self._memory
        )
        self._picks = Picks(rows, people)

    def _grow(self, number: int, class_index: int) -> Tree:
        """Grow one tree on the bag."""
        scale_g, scale_h, total_g, total_h = self._pack(class_index)
        pool, codes = self.pool, self._codes
        rows, people = self._picks
        assert pool.rows is not None  # it was made for growth
        of_people = pool.rows
        self.team.run_ranges(
            lambda lo, hi: gather_codes(of_people, pool.masks, pool.erase, rows, people, lo, hi, codes), len(rows)
        )
        bag = memory.Bag(
            codes, self._packed, self._other_codes, self._other_packed, 1.0 / scale_g, 1.0 / scale_h,
            total_g / scale_g, total_h / scale_h,
        )  # fmt: skip
        params = self.params
        tree_number = number * len(pool.scores) + class_index
        limits = memory.Limits(
            params.max_depth, float(params.min_data_in_leaf), params.min_sum_hessian_in_leaf, params.min_gain_to_split,
            params.feature_fraction_bynode, params.extra_trees, params.intermediate,
            _key(params.extra_seed, _STREAM_TREE, tree_number),
        )  # fmt: skip
        features = self._features._replace(used=self._used_features(tree_number))
        arrays = _tree_arrays(params.num_leaves)
        n, size, shared = len(rows), self.team.size, self._shared
        leaves = self.team.run(
            lambda thread: grow_tree(
                thread, size, n * thread // size, n * (thread + 1) // size, params.num_leaves, bag, features,
                self._cells, limits, self._penalties, self._rules, shared, self._leaves[thread],
                self._scratch[thread], arrays,
            ),
            shared.arrivals,
        )[0]  # fmt: skip
        return self._tree(arrays, leaves)

    def _pack(self, class_index: int) -> tuple[float, float, int, int]:
        """Write the gradients of the bag in whole numbers; return their scales, and their sums in units.

        Scales are powers of two, so that nothing is lost when sums are scaled back. The mean gets as many levels as
        :data:`MEAN_LEVELS`, unless the largest would get more than :data:`MOST_LEVELS`.
        """
        picks, n = self._picks, len(self._picks.rows)
        # The second half of the packed gradients is not in use before the tree grows.
        floats = self._other_packed.view(np.float32)
        gradient, hessian = floats[:n], floats[n:]
        self.team.run_ranges(lambda lo, hi: self.filler.fill(picks, lo, hi, class_index, gradient, hessian), n)
        chunks = -(-n // _CHUNK)
        sizes = np.zeros((max(1, chunks), 4))
        self.team.run_ranges(lambda lo, hi: gradient_sizes(gradient, hessian, lo, hi, sizes), chunks, FEW_BLOCKS)
        sums = sizes[:, 0].sum(), sizes[:, 2].sum()
        if not all(map(math.isfinite, sums)):
            raise ValueError(
                "Gradients are not finite: scores or labels are too large for the objective. Check the labels, the "
                "initial scores and a custom objective, or lower learning_rate."
            )
        scale_g, scale_h = (
            _scale(total / max(n, 1), top) for total, top in zip(sums, sizes[:, 1::2].max(axis=0), strict=True)
        )
        units = self.team.run_ranges(
            lambda lo, hi: pack_gradients(
                gradient, hessian, np.float32(scale_g), np.float32(scale_h), lo, hi, self._packed
            ),
            n,
        )
        return scale_g, scale_h, sum(g for g, _ in units), sum(h for _, h in units)

    def _used_features(self, tree_number: int) -> Array:
        """Return which features a tree may use: as many as ``feature_fraction`` says, with the smallest hashes."""
        usable = self._features.used
        if self.params.feature_fraction >= 1.0:
            return usable
        candidates = np.flatnonzero(usable)
        wanted = max(min(2, len(candidates)), math.floor(len(candidates) * self.params.feature_fraction + 0.5))
        key = _key(self.params.feature_seed, _STREAM_FEATURES, tree_number)
        hashes = [int(counter_hash(key, np.uint64(f), np.uint64(0))) for f in candidates]
        used = np.zeros_like(usable)
        used[candidates[np.argsort(np.asarray(hashes, dtype=np.uint64), kind="stable")[:wanted]]] = 1
        return used

    def _tree(self, arrays: memory.TreeArrays, leaves: int) -> Tree:
        """Return what the kernel has written, with values times the learning rate."""
        nodes, rate = leaves - 1, self.learning_rate
        code = CodeTree(
            *(
                np.ascontiguousarray(part[:nodes])
                for part in (
                    arrays.column, arrays.first_right, arrays.span, arrays.in_set, arrays.right_set, arrays.left,
                    arrays.right,
                )
            )
        )  # fmt: skip
        values = arrays.leaf_value[:leaves]
        renewed = self.filler.renewed(code, self.layout, self._picks, values)
        if not nodes:  # as in LightGBM, a tree without a split adds nothing
            renewed = np.zeros(1)
        feature = arrays.feature[:nodes].copy()
        return Tree(
            code=code,
            feature=feature,
            bin=arrays.bin[:nodes].copy(),
            categories_left=[
                _bins_in(bits) if self._features.categorical[f] else None
                for f, bits in zip(feature, arrays.left_set[:nodes], strict=True)
            ],
            default_left=arrays.default_left[:nodes].copy(),
            gain=arrays.gain[:nodes].copy(),
            internal_value=arrays.value[:nodes] * rate,
            internal_weight=arrays.weight[:nodes].copy(),
            internal_count=arrays.rows[:nodes].copy(),
            leaf_value=(values if renewed is None else renewed) * rate,
            leaf_weight=arrays.leaf_weight[:leaves].copy(),
            leaf_count=arrays.leaf_count[:leaves].copy(),
            shrinkage=rate,
        )

    def _make_shared(self) -> memory.Shared:
        threads, cells = self.team.size, STRIDE * 8 * self.layout.words
        leaves = self.params.num_leaves
        return memory.Shared(
            arrivals=np.zeros(1, dtype=np.int64),
            counts=np.zeros((threads, 2), dtype=np.int64),
            poured=np.zeros(threads, dtype=np.bool_),
            narrow=np.zeros((threads, cells), dtype=np.int64),
            poured_g=np.zeros((threads, cells)),
            poured_h=np.zeros((threads, cells)),
            wide_g=np.zeros((leaves, self._n_cells)),
            wide_h=np.zeros((leaves, self._n_cells)),
            found=np.zeros((threads, 2, memory.FOUND)),
            found_sets=np.zeros((threads, 2, 4), dtype=np.uint64),
        )


def _scale(mean: float, largest: float) -> float:
    """Return the power of two that gives the mean about MEAN_LEVELS units, and the largest at most MOST_LEVELS."""
    if largest == 0.0:
        return 1.0
    most = min(MEAN_LEVELS / mean if mean > 0.0 else math.inf, MOST_LEVELS / largest)
    return math.ldexp(1.0, min(100, max(-100, math.floor(math.log2(most)))))


def _key(seed: int, stream: Any, number: int) -> Any:
    """Return the key of the random numbers of one round or tree."""
    key = np.uint64(stream_key(np.uint64(seed_bits(seed)), stream))
    return np.uint64(counter_hash(key, np.uint64(number), np.uint64(0)))


def _features(bins: Bins, layout: Layout, params: GrowthParams) -> memory.Features:
    """Return what the growth kernel knows of the features."""
    n = len(bins.features)
    monotone = np.zeros(n, dtype=np.int64)
    if params.monotone_constraints:
        if len(params.monotone_constraints) != n:
            raise ValueError(
                f"monotone_constraints has {len(params.monotone_constraints)} signs, but there are {n} columns."
            )
        monotone[:] = params.monotone_constraints
    categorical = np.array([one.categories is not None for one in bins.features], dtype=np.int64)
    if (wrong := np.flatnonzero(categorical & (monotone != 0))).size:
        raise ValueError(f"monotone_constraints: column {wrong[0]} is categorical, and categories have no order.")
    sets = params.interaction_constraints
    together = np.zeros((0 if sets is None else len(sets), n), dtype=np.int64)
    for k, members in enumerate(sets or ()):
        if any(not 0 <= f < n for f in members):
            raise ValueError(f"interaction_constraints names columns {list(members)}, but there are {n} columns.")
        together[k, list(members)] = 1
    return memory.Features(
        column=np.asarray(layout.column, dtype=np.int64),
        first=np.asarray(layout.first, dtype=np.int64),
        n_bins=np.array([one.n_bins for one in bins.features], dtype=np.int64),
        bundled=np.asarray(layout.bundled, dtype=np.int64),
        has_missing=np.array([one.has_missing for one in bins.features], dtype=np.int64),
        categorical=categorical,
        monotone=monotone,
        used=(np.asarray(layout.column) >= 0).astype(np.int64),
        together=together,
    )


def _whole(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.int64)


def _sets(n: int) -> Array:
    """Return n sets of codes, 256 bits each."""
    return np.zeros((n, 4), dtype=np.uint64)


def _tree_arrays(num_leaves: int) -> memory.TreeArrays:
    """Return arrays that the growth kernel fills."""
    n = num_leaves - 1
    return memory.TreeArrays(
        feature=_whole(n), bin=_whole(n), default_left=np.zeros(n, dtype=np.bool_), left_set=_sets(n),
        column=_whole(n), first_right=np.zeros(n, dtype=np.uint8), span=np.zeros(n, dtype=np.uint8),
        in_set=np.zeros(n, dtype=np.bool_), right_set=_sets(n), left=_whole(n), right=_whole(n), gain=np.zeros(n),
        value=np.zeros(n), weight=np.zeros(n), rows=_whole(n), leaf_value=np.zeros(num_leaves),
        leaf_weight=np.zeros(num_leaves), leaf_count=_whole(num_leaves),
    )  # fmt: skip


def _leaves(n: int, n_features: int, intermediate: bool) -> memory.Leaves:
    """Return memory for what a thread knows of n leaves."""
    return memory.Leaves(
        first=_whole(n), end=_whole(n), half=_whole(n), depth=_whole(n), parent=_whole(n), rows=_whole(n),
        sum_g=np.zeros(n), sum_h=np.zeros(n), value=np.zeros(n), lowest=np.zeros(n), highest=np.zeros(n),
        best=np.zeros((n, memory.FOUND)), best_set=_sets(n), path=np.zeros((n, n_features), dtype=np.uint8),
        born=_whole(n), sign=_whole(n), side=_whole(n, n if intermediate else 0), changed=np.zeros(n, dtype=np.bool_),
    )  # fmt: skip


def _scratch(n_features: int) -> memory.Scratch:
    """Return memory for the searches of a thread."""
    return memory.Scratch(
        allowed=_whole(n_features), below_g=np.zeros(256), below_h=np.zeros(256), gains=np.zeros(256),
        order=_whole(256), left_set=np.zeros(4, dtype=np.uint64), right_set=np.zeros(4, dtype=np.uint64),
    )  # fmt: skip


def _bins_in(bits: Array) -> list[int]:
    """Return the bins of a set of 256 bits."""
    return [b for b in range(256) if (int(bits[b >> 6]) >> (b & 63)) & 1]
