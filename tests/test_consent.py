"""The consent schema: how it is declared, what it checks, and who shares what in any container."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import pucboost as puc
from pucboost import Consent
from pucboost._persistence import pickled
from pucboost._tables.sources import row_source
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows

NAMES = ["age", "steps", "pulse", "glucose"]


def test_lists_make_one_group_per_column_and_dicts_make_groups() -> None:
    consent = Consent.declare(["glucose", 1], NAMES)
    assert consent.groups == {"glucose": (3,), "steps": (1,)}
    assert consent.group_columns.tolist() == [3, 1]
    assert Consent.declare(np.array([3, 1]), NAMES) == consent
    assert Consent.declare(pd.Index(["glucose", "steps"]), NAMES) == consent
    consent = Consent.declare({"app": ["steps", 2], "blood": "glucose"}, NAMES)
    assert consent.groups == {"app": (1, 2), "blood": (3,)}
    assert consent.column_groups.tolist() == [0, 0, 1]
    assert repr(consent) == "Consent(app: [steps, pulse], blood: [glucose]; 1 base column)"


def test_bad_declarations() -> None:
    for optional, message in BAD_DECLARATIONS:
        with pytest.raises(ValueError, match=message):
            Consent.declare(optional, NAMES)


BAD_DECLARATIONS: list[tuple[Any, str]] = [
    (["sugar"], "optional names column 'sugar', which the table does not have. Its columns are: age, steps"),
    ([4], r"optional names column 4, but the table has 4 feature\(s\), columns 0 to 3"),
    ([-1], "optional names column -1"),
    (["steps", 1], "Column 'steps' is declared optional twice"),
    ({"a": ["steps"], "b": ["pulse", "steps"]}, r"Column 'steps' is declared optional twice \(groups 'a' and 'b'\)"),
    ({"a": ["steps", 1]}, r"twice \(groups 'a' and 'a'\)"),
    ({"a": []}, "Group 'a' of optional has no columns"),
    ({"a": {"steps"}}, "Group 'a' of optional must list its columns, got set"),
    ({1: ["steps"], "1": ["pulse"]}, "two groups with the same name"),
    ("steps", r"got 'steps'; write \['steps'\]"),
    (3.5, "optional must be a list of columns or a dict group -> columns, got float"),
    ([None], "by string or integer position, got None"),
    ([True], "by string or integer position, got True"),
    ([["steps", "pulse"]], "by string or integer position"),
    ({"nothing": ["steps"]}, "is called 'nothing', but quotes and audits call the set without any"),
    ({"a + b": ["steps"]}, r"group of optional is called 'a \+ b', but quotes and audits call a set of several"),
    ({"a": puc.Needs("b", ["steps"])}, r"Group 'a' needs 'b', but there is no group 'b'. The groups are \['a'\]"),
    ({"a": puc.Needs("a", ["steps"])}, "Group 'a' needs itself"),
    (
        {"a": puc.Needs("b", ["steps"]), "b": puc.Needs("a", ["pulse"])},
        "Groups need each other in a circle: 'a' needs 'b' needs 'a'. Groups that are only shared together are one",
    ),
    (
        {"a": puc.Levels(["steps"], ["pulse"]), "b": puc.Needs("a", ["glucose"])},
        r"Group 'b' needs 'a', which has levels. Name one of them: \['a 1', 'a 2'\]",
    ),
    ({"a": puc.Levels(["steps"], [])}, "Group 'a 2' of optional has no columns"),
    ({"a": puc.Levels(["steps"], ["steps"])}, r"'steps' is declared optional twice \(groups 'a 1' and 'a 2'\)"),
    ({"a": puc.Levels(["steps"]), "a 1": ["pulse"]}, "optional has two groups with the same name, 'a 1'"),
]


AB = {"a": (0,), "b": (1,)}

BAD_SCHEMAS: list[tuple[Any, Any, Any, str]] = [
    ({"g": (10**6,)}, ("a", "b"), {}, "Group 'g' of the consent schema has column 1000000, but there are 2 columns"),
    ({"g": (-1,)}, ("a", "b"), {}, "Group 'g' of the consent schema has column -1"),
    ({"g": (1.0,)}, ("a", "b"), {}, "Group 'g' of the consent schema has column 1.0, not an integer"),
    ({"g": (True,)}, ("a", "b"), {}, "column True, not an integer"),
    ({"g": ()}, ("a", "b"), {}, "Group 'g' of the consent schema has no columns"),
    ({"g": "0"}, ("a", "b"), {}, "Group 'g' of the consent schema must list positions"),
    ({0: (1,)}, ("a", "b"), {}, "Group 0 of the consent schema has a name that is not text"),
    ({"g": (1,), "h": (1,)}, ("a", "b"), {}, "Column 'b' is declared optional twice"),
    ({"g": (1,)}, ("a", 1), {}, "Column 1 of a consent schema has the name 1, which is not text"),
    ({"g": (1,)}, ("a", "a"), {}, "Two columns of the consent schema are called 'a'"),
    ({"g": (1,)}, "ab", {}, "feature_names of a consent schema must be a list of names, got str"),
    ([("g", (1,))], ("a", "b"), {}, "groups of a consent schema must be a dict"),
    (
        {f"g{j}": (j,) for j in range(65)},
        [f"c{j}" for j in range(65)],
        {},
        "The consent schema has 65 groups; at most 64",
    ),
    (AB, ("x", "y"), {"b": "c"}, "Group 'b' needs 'c', but there is no group 'c'"),
    (AB, ("x", "y"), {"z": "a"}, "there is no group 'z'"),
    (AB, ("x", "y"), {"b": 1}, "there is no group 1"),
    (AB, ("x", "y"), {"b": "b"}, "Group 'b' needs itself"),
    (AB, ("x", "y"), {"a": "b", "b": "a"}, "in a circle: 'a' needs 'b' needs 'a'"),
    (AB, ("x", "y"), [("b", "a")], "needs of a consent schema must be a dict group -> group, got list"),
]


def test_checks_itself_however_it_is_made() -> None:
    for groups, names, needs, message in BAD_SCHEMAS:
        state = {"groups": groups, "feature_names": names, "needs": needs}
        for made in (
            lambda state=state: Consent(**state),
            lambda state=state: Consent.from_dict(state),
            lambda state=state: replace(Consent({}, ("a", "b")), **state),
            lambda state=state: pickle.loads(pickle.dumps(Pickled(state))),
        ):
            with pytest.raises(ValueError, match=message):
                made()


class Pickled:
    """Pickles as a Consent with any state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return pickled("Consent", self.state)


LEVELS = {"fitness": puc.Levels(basic=["steps"], full=["pulse"])}


def test_what_was_checked_cannot_be_changed() -> None:
    given = {"g": [np.int64(1)]}
    consent = Consent(given, ["a", "b"])
    given["g"][0] = np.int64(10**6)
    assert consent.groups == {"g": (1,)}
    assert consent.feature_names == ("a", "b")
    with pytest.raises(TypeError, match="does not support item assignment"):
        consent.groups["g"] = (10**6,)  # type: ignore[index]
    with pytest.raises(TypeError, match="does not support item assignment"):
        Consent.declare(LEVELS, NAMES).needs["fitness: basic"] = "fitness: full"  # type: ignore[index]


def test_schemas_and_declarations_can_be_compared_copied_and_pickled() -> None:
    leveled = Consent.declare(LEVELS, NAMES)
    assert leveled != replace(leveled, needs={})
    assert hash(leveled) != hash(replace(leveled, needs={}))
    for consent in (Consent.declare(GROUPS, NAMES), leveled):
        assert Consent.from_dict(consent.to_dict()) == consent
    for made in (leveled, LEVELS["fitness"], puc.Levels(["steps"], "pulse", [3]), puc.Needs("app", ["gps"])):
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            assert again == made
            assert hash(again) == hash(made)
            assert repr(again) == repr(made)
        assert made != puc.Levels(["other"])


def test_levels_are_groups_that_need_the_one_before() -> None:
    consent = Consent.declare({"fitness": puc.Levels(["steps"], "pulse", [3])}, NAMES)
    assert consent.groups == {"fitness 1": (1,), "fitness 2": (2,), "fitness 3": (3,)}
    assert consent.needs == {"fitness 2": "fitness 1", "fitness 3": "fitness 2"}
    assert consent.nesting.needed == (-1, 0, 1)
    assert repr(consent) == (
        "Consent(fitness 1: [steps], fitness 2 needs fitness 1: [pulse], fitness 3 needs fitness 2: [glucose]; "
        "1 base column)"
    )
    named = Consent.declare(LEVELS, NAMES)
    assert named.groups == {"fitness: basic": (1,), "fitness: full": (2,)}
    assert named.needs == {"fitness: full": "fitness: basic"}
    for levels in (puc.Levels, lambda: puc.Levels(["steps"], full=["gps"])):
        with pytest.raises(ValueError, match="all with names or all without"):
            levels()


def test_a_group_needs_another_one_or_a_level() -> None:
    consent = Consent.declare({"gps": puc.Needs("app", ["pulse"]), "app": ["steps"]}, NAMES)
    assert (consent.group_names, consent.needs) == (("gps", "app"), {"gps": "app"})
    both = {"blood": [3], "fitness": puc.Needs("blood", puc.Levels([1], [2])), "place": puc.Needs("fitness 1", [0])}
    assert Consent.declare(both, NAMES).needs == {"fitness 1": "blood", "fitness 2": "fitness 1", "place": "fitness 1"}


def test_integers_that_may_be_labels_are_found_in_levels() -> None:
    table = row_source(pd.DataFrame([[1.0, 2.0]], columns=[7, 1]))
    with pytest.raises(ValueError, match="optional names column 1, but the table has integer labels"):
        Consent.of({"a": puc.Levels([1])}, table)


def test_a_table_with_other_columns_is_refused() -> None:
    """A kernel would read beyond its rows."""
    consent = Consent({"g": (3,)}, ("a", "b", "c", "d"))
    for width in (1, 3, 5):
        with pytest.raises(ValueError, match=f"The table has {width} columns, but the consent schema was declared"):
            consent.availability(np.zeros((2, width)))
        rows = plan_masks(np.zeros(2, dtype=np.uint64), "none")
        with pytest.raises(ValueError, match=f"The table has {width} columns"):
            MaskedRows(row_source(np.zeros((2, width))), consent, rows)
        with pytest.raises(ValueError, match=f"The table has {width} columns"):
            consent.gather(np.zeros((2, width)), np.arange(2), np.zeros(2, np.uint64), np.zeros((2, width)), threads=1)


def test_rows_that_do_not_exist_are_refused() -> None:
    consent, source = Consent({"g": (1,)}, ("a", "b")), row_source(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="The plan is for 3 rows, but the table has 2"):
        MaskedRows(source, consent, plan_masks(np.zeros(3, dtype=np.uint64), "none"))
    rows = MaskedRows(source, consent, plan_masks(np.zeros(2, dtype=np.uint64), "none"))
    for index in (-1, 2):
        with pytest.raises(IndexError, match=f"virtual rows {index} to {index} are not all among 2 virtual rows"):
            rows.take(np.array([index]))
    with pytest.raises(ValueError, match="2 rows and 2 masks do not fit into a table of shape"):
        consent.gather(np.zeros((2, 2)), np.arange(2), np.zeros(2, np.uint64), np.zeros((1, 2)), threads=1)


def test_all_64_bits_work() -> None:
    consent = Consent.declare(list(range(64)), [f"c{j}" for j in range(65)])
    X = np.full((65, 65), np.nan)
    X[np.arange(64), np.arange(64)] = 1.0
    X[64] = 0.0
    assert consent.availability(X).tolist() == [*(1 << g for g in range(64)), 2**64 - 1]


def test_no_base_column_warns() -> None:
    with pytest.warns(UserWarning, match="Every column is optional"):
        Consent.declare(NAMES, NAMES).warn_without_base()


def test_same_columns_or_error() -> None:
    consent = Consent.declare(["steps"], NAMES)
    assert Consent.declare(consent, NAMES) is consent
    with pytest.raises(ValueError, match="The table has 3 columns, but the consent schema was declared"):
        Consent.declare(consent, NAMES[:3])
    with pytest.raises(ValueError, match="Column 0 is 'steps', but the consent schema expects 'age' there"):
        consent.check_columns(["steps", "age", "pulse", "glucose"])


X = np.array([[1, 2, np.nan, np.nan], [1, np.nan, 3, 0], [np.nan, np.nan, np.nan, np.inf], [0, np.nan, np.nan, np.nan]])
MASKS = [1, 3, 2, 0]
GROUPS = {"app": [1, 2], "blood": [3]}


CONTAINERS = {
    "float64": lambda: X,
    "float32": lambda: X.astype(np.float32),
    "fortran": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(X, 3, axis=0)[::3],
    "list": lambda: X.tolist(),
    "pandas": lambda: pd.DataFrame(X, columns=NAMES),
    "nullable": lambda: pd.DataFrame(X, columns=NAMES).astype({"steps": "Int64", "pulse": "Float32"}),
    "categorical": lambda: pd.DataFrame(X, columns=NAMES).assign(steps=pd.Categorical(["few", None, None, None])),
    "csr": lambda: scipy.sparse.csr_matrix(X),
}


def test_availability_of_every_container() -> None:
    consent = Consent.declare(GROUPS, NAMES)
    for name, container in CONTAINERS.items():
        assert consent.availability(container()).tolist() == MASKS, name


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_availability_of_polars_and_arrow(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {name: [None if np.isnan(v) else float(v) for v in X[:, j]] for j, name in enumerate(NAMES)}
    table = module.DataFrame(columns) if library == "polars" else module.table(columns)
    assert Consent.declare(GROUPS, NAMES).availability(table).tolist() == MASKS
    if library == "polars":  # NaN and null are both missing
        table = module.DataFrame(X, schema=NAMES)
        assert Consent.declare(GROUPS, NAMES).availability(table).tolist() == MASKS


def test_zeros_not_stored_in_a_csr_matrix_are_values() -> None:
    consent = Consent.declare([1], ["a", "b"])
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, np.nan], [0.0, 2.0]]))
    assert consent.availability(matrix).tolist() == [1, 0, 1]
    assert consent.availability(matrix, zero_as_missing=True).tolist() == [0, 0, 1]
    # … unless `available` says that they stand for withheld data
    assert consent.availability(matrix, [[False], [False], [True]]).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="row 2 withholds group 'b', but column 'b' has a value there"):
        consent.availability(matrix, [[False], [False], [False]])


def test_available_decides() -> None:
    consent = Consent.declare(GROUPS, NAMES)
    given = np.array([[1, 1], [1, 1], [0, 1], [0, 0]], dtype=bool)  # row 0 shares its blood test, which has no result
    assert consent.availability(X, given).tolist() == [3, 3, 2, 0]
    assert consent.availability(X, given.astype(int)).tolist() == [3, 3, 2, 0]
    frame = pd.DataFrame({"blood": given[:, 1], "app": given[:, 0]})  # goes by the names of groups
    assert consent.availability(X, frame).tolist() == [3, 3, 2, 0]


def test_bad_available() -> None:
    for available, message in [
        (np.ones((4, 3), bool), r"shape \(4, 2\); got \(4, 3\). The groups are \['app', 'blood'\]"),
        (np.ones((3, 2), bool), r"got \(3, 2\)"),
        (np.ones(4, bool), r"got \(4,\)"),
        (np.full((4, 2), 0.5), "available must be boolean, got dtype float64"),
        (np.zeros((4, 2), bool), "row 0 withholds group 'app', but column 'steps' has a value there"),
        ([[1, 0], [1, 0], [0, 1], [0, 0]], "row 1 withholds group 'blood', but column 'glucose' has a value"),
    ]:
        with pytest.raises(ValueError, match=message):
            Consent.declare(GROUPS, NAMES).availability(X, available)


@given(st.integers(1, 5), st.data())
def test_availability_is_any_present(n_columns: int, data: Any) -> None:
    cell = st.sampled_from([np.nan, 0.0, np.inf, -np.inf, 1.5])
    table = np.array(
        data.draw(st.lists(st.lists(cell, min_size=n_columns, max_size=n_columns), min_size=1, max_size=6))
    )
    owner = data.draw(st.lists(st.integers(-1, 2), min_size=n_columns, max_size=n_columns))
    groups = {str(g): [j for j, o in enumerate(owner) if o == g] for g in range(3) if g in owner}
    if sum(map(len, groups.values())) in (0, n_columns):
        return
    consent = Consent.declare(groups, [f"c{j}" for j in range(n_columns)])
    expected = [
        sum(1 << g for g, columns in enumerate(groups.values()) if not np.isnan(row[columns]).all()) for row in table
    ]
    assert consent.availability(table).tolist() == expected


def test_bad_tables() -> None:
    bad: list[tuple[Any, Any, str]] = [
        (np.array([["a", "b"]]), ValueError, "must be numeric, got an array of dtype <U1"),
        (np.zeros(3), ValueError, r"2 dimensions, got an array of shape \(3,\)"),
        (np.zeros((0, 2)), ValueError, "The feature table has no rows"),
        (pd.DataFrame({"a": [1.0], "b": [["x"]]}), ValueError, "Column 'b' holds a list in row 0"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), ValueError, "Column 'a' appears more than once"),
        (
            pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-01-01"])}),
            ValueError,
            "Column 'b' has dtype datetime64",
        ),
        ("table.csv", ValueError, "text or binary file"),
        ({"a": 1}, TypeError, "Cannot read a feature table from dict"),
    ]
    for table, error, message in bad:
        with pytest.raises(error, match=message):
            Consent.declare(["b"], ["a", "b"]).availability(table)
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="Column 'b' has dtype Binary"):
        Consent.declare(["b"], ["a", "b"]).availability(pl.DataFrame({"a": [1.0], "b": [b"x"]}))
