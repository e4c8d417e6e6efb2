"""Growing: threads that stay in a kernel from one job to the next, the memory of their jobs, and the trees they return.

The kernels are in :mod:`.kernels.growth`. Every training has threads of its own. A sleeping thread, or one that waits
for the interpreter's lock, wakes up later than many a step takes, so they wait for each other by spinning.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._common import Array, signals_held
from ..._kernels.compiling import reported_if_compiled_now
from ..._kernels.masks import counter_hash, stream_key
from ..._virtual.plan import seed_bits
from .bins import Bins, Layout
from .kernels import growth as kernel
from .kernels.codes import PEOPLE_PER_BLOCK, PROBABILITY_BITS
from .kernels.gradients import SOFTMAX, AddedTree, CodeTree
from .kernels.growth import Tree
from .kernels.histograms import CHUNK_ROWS, RELEASED, STRIDE, raise_counter
from .kernels.splits import FOUND, CategoryRules, Penalties
from .losses import PICKS, Filler, Picks
from .pool import Pool, put_tree, room_for_splits, room_for_tree, whole

_LINE = 8
"""Numbers in a line of the cache: counters of different threads should not share one."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What the jobs of one training work on; the last two have an entry for each thread."""

    pool: kernel.PoolMemory
    bag: kernel.BagMemory
    growth: kernel.GrowthMemory
    added: AddedTree
    leaves: tuple[Any, ...]
    scratch: tuple[Any, ...]

    def of_thread(self, thread: int) -> tuple[Any, ...]:
        return self.pool, self.bag, self.growth, self.added, self.leaves[thread], self.scratch[thread]


class Crew:
    """A fixed number of threads of its own, the caller's among them.

    Threads that wait for each other must all be running, so there is no queue in which other work could come first. A
    thread that waits for a job looks on in the kernel for a moment, and only then comes back and sleeps: to wake it up
    takes longer than many a tree. If the system has no more threads to give, there are fewer; results do not depend on
    that.
    """

    def __init__(self, threads: int) -> None:
        self.signals = kernel.Signals(
            calls=np.zeros(1, dtype=np.int64),
            served=np.zeros((threads, _LINE), dtype=np.int64),
            arrivals=np.zeros(1, dtype=np.int64),
            whole=np.zeros(kernel.N_PARTS + 1, dtype=np.int64),
            keys=np.zeros(kernel.TREE_KEY + 1, dtype=np.uint64),
        )
        self._change = threading.Condition()
        self._memory: Memory | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        for number in range(1, threads):
            thread = threading.Thread(target=self._serve, args=(number,), name=f"pucboost-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more to give
                break
            self._threads.append(thread)
        self.signals.whole[kernel.THREADS] = self.size

    @property
    def size(self) -> int:
        return 1 + len(self._threads)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        with self._change:
            self._change.notify_all()

    def run(self, job: int, memory: Memory) -> None:
        """Do a job with all threads; its numbers stand in :attr:`signals` and ``memory``.

        When one fails before it gets into the kernel, the others are let through: their work is lost, but nobody waits
        for ever.
        """
        signals = self.signals
        try:
            if memory is not self._memory:
                self._take(memory)
            signals.whole[kernel.JOB] = job
            self._call()
            kernel.do_jobs(0, False, signals, *memory.of_thread(0))
        except BaseException:
            self._release()
            raise
        if self._error is not None:
            raise self._error

    def _call(self) -> None:
        raise_counter(self.signals.calls)
        with self._change:
            self._change.notify_all()

    def _take(self, memory: Memory) -> None:
        """Have all threads leave the kernel, into which they took other memory; the next time they take this one."""
        self.signals.whole[kernel.JOB] = kernel.LEAVE
        if self._memory is None:
            with reported_if_compiled_now(kernel.do_jobs, "the native engine"):
                kernel.do_jobs(0, False, self.signals, *memory.of_thread(0))
        else:
            self._call()
            with self._change:
                self._change.wait_for(lambda: all(map(self._is_idle, range(1, self.size))) or self._error is not None)
        self._memory = memory

    def _is_idle(self, number: int) -> bool:
        return bool(self.signals.served[number, 0] == self.signals.calls[0])

    def _release(self) -> None:
        self.signals.arrivals[:] = RELEASED
        self.__exit__()

    def _serve(self, number: int) -> None:
        try:
            while True:
                with self._change:
                    self._change.notify_all()  # whoever waits until this thread is idle
                    self._change.wait_for(lambda: self._ended or not self._is_idle(number))
                    memory = self._memory
                if self._ended or memory is None:
                    return
                kernel.do_jobs(number, True, self.signals, *memory.of_thread(number))
        except BaseException as error:
            self._error = error
            self._release()


# ----- from gradients to trees

_STREAM_BAG, _STREAM_FEATURES, _STREAM_TREE = np.uint64(11), np.uint64(12), np.uint64(13)


@dataclass(frozen=True)
class GrowthParams:
    """LightGBM's parameters of trees."""

    num_leaves: int
    max_depth: int
    learning_rate: float
    min_data_in_leaf: int
    min_sum_hessian_in_leaf: float
    lambda_l1: float
    lambda_l2: float
    min_gain_to_split: float
    max_delta_step: float
    path_smooth: float
    feature_fraction: float
    feature_fraction_bynode: float
    bagging_fraction: float
    bagging_freq: int
    extra_trees: bool
    monotone_constraints: tuple[int, ...]
    intermediate: bool
    """Whether monotone constraints are less strict than LightGBM's basic ones."""
    interaction_constraints: tuple[tuple[int, ...], ...] | None
    cat_smooth: float
    cat_l2: float
    max_cat_threshold: int
    max_cat_to_onehot: int
    min_data_per_group: int
    bagging_seed: int
    feature_seed: int
    extra_seed: int
    silence_first: bool = False
    """Whether some trees begin with what is missing; pucboost's own."""


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
    crew
        The threads; they do not change the result.
    """

    def __init__(
        self, pool: Pool, bins: Bins, layout: Layout, params: GrowthParams, filler: Filler, share: float, crew: Crew
    ) -> None:
        self.pool, self.layout, self.params, self.filler, self.crew = pool, layout, params, filler, crew
        self.learning_rate = params.learning_rate
        users = params.bagging_fraction if params.bagging_freq > 0 else 1.0
        self._probability = bag_probability(min(1.0, users * share))
        self._bag_rounds = params.bagging_freq if users < 1.0 or share == 1.0 else 1
        self._drawn, self._n = -1, 0
        self._features = _features(bins, layout, params)
        self._usable = self._features.used.copy()
        threads = range(crew.size)
        self._memory = Memory(
            pool=self._pool_memory(),
            bag=self._bag_memory(0),
            growth=self._growth_memory(),
            added=self._room_for_tree(4 * params.num_leaves, 4 * params.num_leaves),
            leaves=tuple(_leaves(params.num_leaves, len(layout.column), params.intermediate) for _ in threads),
            scratch=tuple(_scratch(len(layout.column)) for _ in threads),
        )

    @property
    def picks(self) -> Picks:
        bag = self._memory.bag
        return Picks(bag.rows[: self._n], bag.people[: self._n])

    def step(self, number: int) -> list[Tree]:
        """Grow the trees of one round, one for each class, and add them to the scores of the pool.

        An interrupt waits until the round is done; once a round, because that takes longer than handing out a job.
        """
        with signals_held():
            self._draw(number)
            self.filler.begin_round()
            trees = [self._grow(number, k) for k in range(len(self.pool.scores))]
            for k, tree in enumerate(trees):  # softmax gradients need the scores of all classes as they were
                self._add(tree, k)
        return trees

    def _draw(self, number: int) -> None:
        """Draw the bag of a round, unless the user's bagging frequency keeps the last one."""
        draw = number // max(1, self._bag_rounds) if self._probability < 2**PROBABILITY_BITS else 0
        if draw == self._drawn:
            return
        signals = self.crew.signals
        signals.keys[kernel.BAG_KEY] = _key(self.params.bagging_seed, _STREAM_BAG, draw)
        signals.keys[kernel.CHANCE] = self._probability
        self.crew.run(kernel.DRAW, self._memory)
        n = int(signals.whole[kernel.BAG_ROWS])
        if n > len(self._memory.bag.rows):
            self._memory = replace(self._memory, bag=self._bag_memory(n))
            self.crew.run(kernel.DRAW, self._memory)
        self._drawn, self._n = draw, n

    def _grow(self, number: int, class_index: int) -> Tree:
        signals, bag, n = self.crew.signals, self._memory.bag, self._n
        tree_number = number * len(self.pool.scores) + class_index
        job = signals.whole
        job[kernel.BAG_ROWS], job[kernel.CLASS], job[kernel.LOSS] = n, class_index, self.filler.loss
        job[kernel.SILENCE_FIRST] = number % EVERY == EVERY - 1 and self._features.comes_first.any()
        if self.filler.loss < 0:
            # The second half of the packed gradients is not in use before the tree grows.
            floats = bag.other_packed.view(np.float32)
            self.filler.fill(self.picks, 0, n, class_index, floats[:n], floats[n : 2 * n])
        signals.keys[kernel.TREE_KEY] = _key(self.params.extra_seed, _STREAM_TREE, tree_number)
        self._features.used[:] = self._used_features(tree_number)
        self.crew.run(kernel.GROW, self._memory)
        if math.isnan(bag.numbers[kernel.SCALE_G]):
            raise ValueError(
                "Gradients are not finite: scores or labels are too large for the objective. Check the labels, the "
                "initial scores and a custom objective, or lower learning_rate."
            )
        return self._tree(self._memory.growth.tree, int(job[kernel.LEAVES]))

    def _add(self, tree: Tree, class_index: int) -> None:
        n = len(tree.feature)
        if n == 0:
            self.pool.scores[class_index] += np.float32(tree.leaf_value[0])
            return
        added, job = self._memory.added, self.crew.signals.whole
        put_tree(added, tree.code, tree.leaf_value)
        job[kernel.CLASS], job[kernel.NODES] = class_index, n
        self.crew.run(kernel.ADD, self._memory)
        tests, parts = int(job[kernel.N_TESTS]), int(job[kernel.N_PARTS])
        if tests > len(added.tests.column) or parts + 2 > added.sets.shape[1]:  # it did not fit, so nothing was added
            self._memory = replace(self._memory, added=self._room_for_tree(2 * tests, 2 * max(parts, tests)))
            self._add(tree, class_index)

    def _room_for_tree(self, tests: int, parts: int) -> AddedTree:
        has_sets = bool(self._features.categorical.any() or self._features.bundled.any())
        leaves, threads = self.params.num_leaves, self.crew.size
        return room_for_tree(self.layout, leaves, tests, has_sets=has_sets, parts=parts, threads=threads)

    def _used_features(self, tree_number: int) -> Array:
        """Return which features a tree may use: a share ``feature_fraction``, those with the smallest hashes."""
        usable = self._usable
        if self.params.feature_fraction >= 1.0:
            return usable
        candidates = np.flatnonzero(usable)
        wanted = max(1, math.floor(len(candidates) * self.params.feature_fraction + 0.5))
        key = _key(self.params.feature_seed, _STREAM_FEATURES, tree_number)
        hashes = [int(counter_hash(key, np.uint64(f), np.uint64(0))) for f in candidates]
        used = np.zeros_like(usable)
        used[candidates[np.argsort(np.asarray(hashes, dtype=np.uint64), kind="stable")[:wanted]]] = 1
        return used

    def _tree(self, grown: Tree, leaves: int) -> Tree:
        """Return a copy of what the kernel has written, with values times the learning rate."""
        nodes, rate = leaves - 1, self.learning_rate
        code = CodeTree(*(part[:nodes].copy() for part in grown.code))
        values = self.filler.renewed(code, self.layout, self.picks, grown.leaf_value[:leaves])
        if values is None:
            values = grown.leaf_value[:leaves]
        if not nodes:  # as in LightGBM, a tree without a split adds nothing
            values = np.zeros(1)
        of_nodes = ("feature", "bin", "left_set", "default_left", "gain", "internal_weight", "internal_count")
        return Tree(
            code=code,
            internal_value=grown.internal_value[:nodes] * rate,
            leaf_value=values * rate,
            leaf_weight=grown.leaf_weight[:leaves].copy(),
            leaf_count=grown.leaf_count[:leaves].copy(),
            shrinkage=rate,
            **{name: getattr(grown, name)[:nodes].copy() for name in of_nodes},
        )

    def _pool_memory(self) -> kernel.PoolMemory:
        pool = self.pool
        assert pool.rows is not None  # it was made for growth
        ranges = pool.people_ranges(self.crew.size)
        return kernel.PoolMemory(
            ranges=np.array([0, *(end for _, end in ranges)], dtype=np.int64),
            **{name: getattr(pool, name) for name in kernel.PoolMemory._fields if name != "ranges"},
        )

    def _bag_memory(self, n: int) -> kernel.BagMemory:
        """Return room for bags of about n rows; they differ in size unless everybody is drawn."""
        room = n if self._probability == 2**PROBABILITY_BITS or n == 0 else n + 4 * math.isqrt(n) + 64
        words, threads = self.layout.words, self.crew.size
        classes = room if self.filler.loss == SOFTMAX else 0
        return kernel.BagMemory(
            rows=np.empty(room, dtype=np.uint32),
            people=np.empty(room, dtype=np.uint32),
            codes=np.empty((room, words), dtype=np.uint64),
            other_codes=np.empty((room, words), dtype=np.uint64),
            packed=np.empty(room, dtype=np.int64),
            other_packed=np.empty(room, dtype=np.int64),
            words=np.empty(len(self.pool) // 64 + 1, dtype=np.uint64),
            counts=np.zeros(-(-len(self.pool.label) // PEOPLE_PER_BLOCK) + 1, dtype=np.int64),
            sizes=np.zeros((-(-room // CHUNK_ROWS), 4)),
            units=np.zeros((threads, 2), dtype=np.int64),
            gathered=np.empty((threads, 4, PICKS), dtype=np.float32),
            largest=np.empty(classes, dtype=np.float32),
            total=np.empty(classes, dtype=np.float32),
            numbers=np.concatenate(([1.0, 1.0, self.filler.constant], self.filler.start)),
        )

    def _growth_memory(self) -> kernel.GrowthMemory:
        params = self.params
        n_codes = np.asarray(self.layout.n_codes, dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(n_codes + 1)))
        threads, cells, leaves = self.crew.size, STRIDE * 8 * self.layout.words, params.num_leaves
        return kernel.GrowthMemory(
            features=self._features,
            cells=kernel.Cells(starts[:-1].astype(np.int64), n_codes),
            limits=kernel.Limits(
                params.max_depth, float(params.min_data_in_leaf), params.min_sum_hessian_in_leaf,
                params.min_gain_to_split, params.feature_fraction_bynode, params.extra_trees, params.intermediate,
                np.uint64(0), False,
            ),
            penalties=Penalties(
                params.lambda_l1, params.lambda_l2, params.max_delta_step, params.path_smooth,
                plain=not any(
                    (params.lambda_l1, params.max_delta_step, params.path_smooth, *params.monotone_constraints)
                ),
            ),
            rules=CategoryRules(
                params.max_cat_to_onehot, params.max_cat_threshold, params.cat_smooth, params.cat_l2,
                float(params.min_data_per_group),
            ),
            shared=kernel.Shared(
                counts=whole(threads, 2),
                spans=whole(threads, 2),
                poured=np.zeros(threads, dtype=np.bool_),
                narrow=whole(threads, cells),
                poured_g=np.zeros((threads, cells)),
                poured_h=np.zeros((threads, cells)),
                wide_g=np.zeros((leaves, int(starts[-1]))),
                wide_h=np.zeros((leaves, int(starts[-1]))),
                found=np.zeros((threads, 2, FOUND)),
                found_sets=np.zeros((threads, 2, 4), dtype=np.uint64),
            ),
            tree=_empty_tree(leaves),
        )  # fmt: skip


def bag_probability(share: float) -> int:
    """Return a probability in units of 2⁻¹⁶, with seven significant bits: each further one costs a random number.

    The bag is within 0.8 % of the size that was asked for. Only a share of 1 is everybody.
    """
    if share >= 1.0:
        return 1 << PROBABILITY_BITS
    units = share * (1 << PROBABILITY_BITS)
    step = 1 << max(0, math.floor(math.log2(max(units, 1.0))) - 6)
    return min(max(1, round(units / step) * step), (1 << PROBABILITY_BITS) - step)


def _key(seed: int, stream: Any, number: int) -> Any:
    """Return the key of the random numbers of one round or tree."""
    key = np.uint64(stream_key(np.uint64(seed_bits(seed)), stream))
    return np.uint64(counter_hash(key, np.uint64(number), np.uint64(0)))


def _features(bins: Bins, layout: Layout, params: GrowthParams) -> kernel.Features:
    n = len(bins.features)
    monotone = np.zeros(n, dtype=np.int64)
    if params.monotone_constraints:
        if len(params.monotone_constraints) != n:
            raise ValueError(
                f"monotone_constraints has {len(params.monotone_constraints)} signs, but there are {n} columns."
            )
        monotone[:] = params.monotone_constraints
    categorical = bins.is_category.astype(np.int64)
    if (wrong := np.flatnonzero(categorical & (monotone != 0))).size:
        raise ValueError(f"monotone_constraints: column {wrong[0]} is categorical, and categories have no order.")
    sets = params.interaction_constraints
    together = np.zeros((0 if sets is None else len(sets), n), dtype=np.int64)
    for k, members in enumerate(sets or ()):
        if any(not 0 <= f < n for f in members):
            raise ValueError(f"interaction_constraints names columns {list(members)}, but there are {n} columns.")
        together[k, list(members)] = 1
    return kernel.Features(
        column=np.asarray(layout.column, dtype=np.int64),
        first=np.asarray(layout.first, dtype=np.int64),
        n_bins=bins.n_bins,
        bundled=np.asarray(layout.bundled, dtype=np.int64),
        has_missing=np.array([one.has_missing for one in bins.features], dtype=np.int64),
        categorical=categorical,
        monotone=monotone,
        used=(np.asarray(layout.column) >= 0).astype(np.int64),
        comes_first=_comes_first(bins, layout, params, monotone),
        together=together,
    )


EVERY = 5
"""Every fifth tree may begin with what is missing. With more of them smooth truths come closer, and held-out losses
rise on some real tables."""

FEWEST_LEAVES = 8
"""In smaller trees one split is too large a part of what they can learn."""


def _comes_first(bins: Bins, layout: Layout, params: GrowthParams, monotone: Array) -> Array:
    """Return of which features some trees may first ask whether they are missing: of optional ones.

    What depends on which values are missing is learned slowly: a split on it gains a little in every part of a tree,
    but seldom most in any. As the first one it serves the whole tree. Not where it would narrow the tree: to the
    columns that may meet it, or to one side of a bound.
    """
    out = np.zeros(len(monotone), dtype=np.int64)
    deep_enough = params.num_leaves >= FEWEST_LEAVES and not 0 < params.max_depth < 3
    if params.silence_first and deep_enough and params.interaction_constraints is None:
        for f, column in enumerate(layout.column):
            is_optional = column >= 0 and layout.group[column] >= 0
            out[f] = is_optional and bins.features[f].has_missing and monotone[f] == 0
    return out


def _empty_tree(leaves: int) -> Tree:
    n = leaves - 1
    return Tree(
        code=room_for_splits(n), feature=whole(n), bin=whole(n), left_set=np.zeros((n, 4), dtype=np.uint64),
        default_left=np.zeros(n, dtype=np.bool_), gain=np.zeros(n), internal_value=np.zeros(n),
        internal_weight=np.zeros(n), internal_count=whole(n), leaf_value=np.zeros(leaves),
        leaf_weight=np.zeros(leaves), leaf_count=whole(leaves), shrinkage=1.0,
    )  # fmt: skip


def _leaves(n: int, n_features: int, intermediate: bool) -> kernel.Leaves:
    return kernel.Leaves(
        first=whole(n), end=whole(n), half=whole(n), depth=whole(n), parent=whole(n), rows=whole(n),
        sum_g=np.zeros(n), sum_h=np.zeros(n), value=np.zeros(n), lowest=np.zeros(n), highest=np.zeros(n),
        best=np.zeros((n, FOUND)), best_set=np.zeros((n, 4), dtype=np.uint64),
        path=np.zeros((n, n_features), dtype=np.uint8), barren=np.zeros((n, n_features), dtype=np.uint8),
        born=whole(n), sign=whole(n), side=whole(n, n if intermediate else 0), changed=np.zeros(n, dtype=np.bool_),
    )  # fmt: skip


def _scratch(n_features: int) -> kernel.Scratch:
    return kernel.Scratch(
        allowed=whole(n_features), below_g=np.zeros(256), below_h=np.zeros(256), gains=np.zeros(256),
        order=whole(256), left_set=np.zeros(4, dtype=np.uint64), right_set=np.zeros(4, dtype=np.uint64),
        goes_right=np.zeros(256, dtype=np.uint8),
    )  # fmt: skip
