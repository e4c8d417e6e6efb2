"""``pucboost predict``, ``quote`` and ``letter``: a model and a table file, read in batches, to a table or to pages.

All three read people as the model knows them. ``predict`` and ``quote`` write one row per person, as ``explain`` does;
``letter`` writes one page per person.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import (
    DataError,
    check_can_be_read,
    check_can_be_written,
    ending_of,
    folder_written_whole,
    table_writer,
    write_whole,
)
from .intervals import read_intervals
from .shared import (
    Commands,
    add_command,
    features_of,
    flat,
    load,
    names,
    note,
    output_was_closed,
    progress,
    writing_output,
)

if TYPE_CHECKING:
    from .._explaining.game import Background
    from .._letter.letters import Letter
    from .._letter.text import LetterText
    from .._tables.columns import Column
    from .._tables.sources import ArraySource
    from .._tables.table_files import Block, TableFile


def add_parsers(commands: Commands) -> None:
    _add_predict(commands)
    _add_quote(commands)
    _add_letter(commands)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file, as written by train or puc.save_model")
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="table file; its columns may be in any order, and others are ignored"
    )


# predict and quote: one row per person --------------------------------------------------------------------------------

_PREDICT_EPILOG = """\
example:
  What everybody is told as they share now, and under a bonus system in which
  sharing never hurts:

    pucboost predict model.txt people.csv --keep id --out predictions.csv
    pucboost predict model.txt people.csv --keep id --sharing best \\
        --favourable lower --subset --out bonus.parquet

output:
  The kept columns, then prediction (with several classes prediction_0,
  prediction_1, …), then with --subset one column used_GROUP per group, true
  or false. With --intervals lower and upper follow, or for probabilities one
  column in_set_CLASS per class, and based_on, the groups they are based on. If
  DATA has no column of a group, everybody withholds it."""

_QUOTE_EPILOG = """\
example:
  What everybody would be told if they shared nothing, each group alone, or
  two groups:

    pucboost quote model.txt people.csv --keep id \\
        --subsets nothing,alone,fitness+glucose --out quotes.csv

output:
  The kept columns, then one column per subset, such as "nothing", "glucose",
  "fitness + glucose" (with several classes one per subset and class:
  "nothing_0", …), empty where a person does not share all of the subset. If
  DATA has no column of a group, everybody withholds it."""


def _add_predict(commands: Commands) -> None:
    parser = add_command(
        commands,
        "predict",
        partial(write_rows, _predictions, "predicting"),
        help="predict for the people in a table file",
        description="Predict for the people in a table file, from what they share.",
        epilog=_PREDICT_EPILOG,
    )
    add_rows(parser)
    _add_raw_score(parser)
    parser.add_argument(
        "--sharing",
        choices=("as_given", "withheld", "best"),
        default="as_given",
        help="use everything shared (default), nothing optional, or the subset of what a person shares that gives the "
        "most favourable prediction",
    )
    parser.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        help="which predictions people prefer; --sharing best needs it unless the model keeps it",
    )
    parser.add_argument("--subset", action="store_true", help="add columns that show which groups were used")
    parser.add_argument(
        "--search",
        choices=("exact", "greedy"),
        default="exact",
        help="what --sharing best does if a person has more than --max-subsets subsets: exact fails (default), greedy "
        "searches",
    )
    parser.add_argument(
        "--max-subsets", type=int, default=4096, metavar="N", help="most subsets to try for a person (default 4096)"
    )
    parser.add_argument(
        "--intervals", type=Path, metavar="FILE", help="add the intervals that 'pucboost intervals' found for the model"
    )


def _add_quote(commands: Commands) -> None:
    parser = add_command(
        commands,
        "quote",
        partial(write_rows, _quotes, "quoting"),
        help="predict for every subset of what people share",
        description="Say what each person in a table file would be told for every subset of\nwhat they share.",
        epilog=_QUOTE_EPILOG,
    )
    add_rows(parser)
    _add_raw_score(parser)
    parser.add_argument(
        "--subsets",
        type=names,
        action="append",
        metavar="SUBSET,SUBSET",
        help="nothing, alone (each group), all_but_one (each), all, or groups joined by +; by default all subsets, "
        "for up to 6 groups",
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    _add_inputs(parser)
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="table file to write; - writes CSV to standard output"
    )
    parser.add_argument(
        "--keep", type=names, action="append", metavar="COL,COL", help="columns of DATA to copy, such as an id"
    )


def _add_raw_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--raw-score", action="store_true", help="raw scores instead of predictions")


def write_rows(
    compute: Callable[[argparse.Namespace, Any, ArraySource, int], dict[str, Any]], what: str, given: argparse.Namespace
) -> int:
    """Write the kept columns and the computed ones, batch by batch.

    ``compute`` takes the options, the model, some people and the number of their first row, and returns columns.
    """
    from .._tables.table_files import check_columns, open_table

    out = None if given.out == "-" else Path(given.out)
    if out is not None:
        ending_of(out)
        check_can_be_written(out, given.model, given.data)
    elif output_was_closed():
        raise DataError("--out -: standard output is closed")
    file = open_table(given.data)
    model = load(given.model)
    kept = flat(given.keep)
    check_columns(file, kept, "--keep")
    if "sharing" in given:
        _check_favourable(given, model)
    if "intervals" in given:
        given.found = _intervals(given, model)
    features = features_of(model, file, given.quiet)
    with people_in_batches(features, file, kept, what, given.quiet) as blocks, table_writer(out) as write:
        for block, people in blocks:
            columns = {name: block.as_stored(name) for name in kept}
            for name, values in compute(given, model, people, block.first_row).items():
                if name in columns:
                    raise DataError(f"the output would have two columns {name!r}; rename the one that --keep names")
                columns[name] = values
            with nullcontext() if out is not None else writing_output():
                write(columns)
    return 0


def _check_favourable(given: argparse.Namespace, model: Any) -> None:
    of_one_class = getattr(given, "target_class", None) is not None  # the model keeps nothing about it
    kept = None if of_one_class else model.puc_summary.favourable
    if given.sharing == "best" and given.favourable is None and kept is None:
        raise DataError("--sharing best needs --favourable lower (a price) or --favourable higher (an approval)")


def _intervals(given: argparse.Namespace, model: Any) -> Any:
    if given.intervals is None:
        return None
    if given.sharing != "as_given" or given.raw_score:
        raise DataError("--intervals are for what people share; leave out --sharing and --raw-score")
    return read_intervals(given.intervals, model)


def _predictions(given: argparse.Namespace, model: Any, people: ArraySource, first_row: int) -> dict[str, Any]:
    import numpy as np

    from .._prediction.predictor import predict

    if given.sharing == "best" and given.search == "exact":
        _check_number_of_subsets(given, model, people, first_row)
    prediction, used = predict(
        model,
        people,
        sharing=given.sharing,
        favourable=given.favourable,
        raw_score=given.raw_score,
        num_threads=given.threads,
        return_subset=True,
        max_subsets=given.max_subsets,
        search=given.search,
    )
    # float64 holds XGBoost's float32 exactly, and gives both engines the same type.
    values = np.asarray(prediction, dtype=np.float64)
    columns = {"prediction": values}
    if values.ndim == 2:
        columns = {f"prediction_{k}": values[:, k] for k in range(values.shape[1])}
    if given.subset:
        columns |= {f"used_{group}": used[group].to_numpy() for group in used.columns}
    if given.found is not None:
        told = given.found.predict_interval(people, num_threads=given.threads)
        in_set = {name: f"in_set_{name}" for name in given.found.classes or ()}
        columns |= {in_set.get(name, name): told[name].to_numpy() for name in told.columns}
    return columns


def _check_number_of_subsets(given: argparse.Namespace, model: Any, people: ArraySource, first_row: int) -> None:
    """Raise as puc.predict does, but with the row number in the file and the options of the command line."""
    from .._prediction.predictor import who_has_too_many

    too_many = who_has_too_many(model.consent.availability(people), model.consent.nesting, given.max_subsets)
    if too_many is not None:
        row, groups, subsets = too_many
        raise DataError(
            f"{given.data}, row {first_row + row}: this person shares {groups} groups, {subsets} subsets, "
            f"more than --max-subsets {given.max_subsets}. Raise it, or allow --search greedy"
        )


def _quotes(given: argparse.Namespace, model: Any, people: ArraySource, _: int) -> dict[str, Any]:
    from .._prediction.predictor import FAMILIES, quote, subset_masks, subset_names

    def groups(text: str) -> Any:
        if text in FAMILIES:
            return text
        return [text] if text in model.consent.groups else [group.strip() for group in text.split("+")]

    subsets = None if given.subsets is None else [groups(text) for some in given.subsets for text in some]
    columns = subset_names(subset_masks(model.consent, subsets), model.consent)
    # Everybody shares "nothing", so even a batch in which nobody shares the other subsets has all classes.
    asked = None if subsets is None else ["nothing", *subsets]
    table = quote(model, people, subsets=asked, raw_score=given.raw_score, num_threads=given.threads)
    if table.columns.nlevels == 1:
        return {name: table[name].to_numpy() for name in columns}
    return {f"{name}_{k}": table[name][k].to_numpy() for name in columns for k in table[name].columns}


# letter: one page per person ------------------------------------------------------------------------------------------

_LETTER_EPILOG = """\
example:
  A page for the one person in person.csv, and one for each person in
  people.csv, named after the column id:

    pucboost letter model.txt person.csv --quantity "yearly price in euros" \\
        --audit audit.json --out quote.html
    pucboost letter model.txt people.csv --name-by id --text letter.toml \\
        --audit audit.json --out letters/

output:
  HTML pages that load nothing and send nothing. Each says what the person is
  told now, and what they would be told for every choice among the groups they
  share (at most 10). Give each page only to the person it is about.

--text:
  A TOML file with what is to be worded differently; the rest keeps its
  default:

    quantity = "yearly price in euros"
    [groups]
    blood = "your blood test"
    [number]
    prefix = "€"
    decimals = 0

  In Python, puc.letters.LetterText().to_toml("letter.toml") writes all texts."""


def _add_letter(commands: Commands) -> None:
    parser = add_command(
        commands,
        "letter",
        _write_letters,
        help="write pages that tell people what their choices of what to share would give",
        description="Write a page for a person, or for each in a table file: what they would be told\nfor every choice "
        "among the data they share.",
        epilog=_LETTER_EPILOG,
    )
    _add_inputs(parser)
    parser.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help="page to write; with --name-by, a folder for the pages"
    )
    parser.add_argument(
        "--name-by", metavar="COL", help="write a page for each person, named after this column, which it also shows"
    )
    parser.add_argument(
        "--quantity", metavar="WORDS", help="what the number is, and in which unit; needed unless --text has it"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help="words, names of groups and look of numbers")
    parser.add_argument(
        "--audit",
        type=Path,
        metavar="FILE",
        help="what 'pucboost audit --json' wrote about this model; without it, pages say that it was not audited",
    )
    parser.add_argument(
        "--sharing",
        choices=("as_given", "best"),
        default="as_given",
        help="what people are told: the prediction from everything they share (default), or the most favourable one "
        "over all subsets of it",
    )
    parser.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        help="which predictions people prefer; --sharing best needs it unless the model keeps it",
    )
    parser.add_argument(
        "--target-class", type=int, metavar="N", help="number of the class to tell people about, if there are several"
    )
    parser.add_argument(
        "--background",
        type=Path,
        metavar="FILE",
        help="table file of people to compare with: pages then name the columns that moved the number most",
    )
    parser.add_argument(
        "--intervals",
        type=Path,
        metavar="FILE",
        help="what 'pucboost intervals' wrote about this model: pages then say how sure the number is",
    )


def _write_letters(given: argparse.Namespace) -> int:
    from .._kernels.compiling import engine_threads
    from .._letter.text import LetterText, worded
    from .._tables.table_files import check_columns, open_table

    _check_letter_options(given)
    text = worded(None if given.text is None else LetterText.from_toml(given.text), given.quantity)
    audit = None if given.audit is None else _read_audit(given.audit)
    file = open_table(given.data)
    further = [] if given.name_by is None else [given.name_by]
    check_columns(file, further, "--name-by")
    model = load(given.model)
    _check_favourable(given, model)
    features = features_of(model, file, given.quiet)
    reading = people_in_batches(features, file, further, "writing letters", given.quiet)
    with engine_threads(given.threads), reading as batches:
        letters = _letters(given, model, batches, text, audit)
        written = _write_one(given, letters) if given.name_by is None else _write_each(given, letters)
    note(f"wrote {written}", given.quiet)
    return 0


def _check_letter_options(given: argparse.Namespace) -> None:
    """Raise for options that do not go together, and for what cannot be written, before anything is read."""
    if given.sharing != "best" and given.favourable is not None:
        raise DataError("--favourable only goes with --sharing best")
    if given.name_by is None:
        if given.out.is_dir():
            raise DataError(f"{given.out} is a directory; name the pages in it with --name-by, or write to one file")
        check_can_be_written(given.out, given.model, given.data)
    elif given.out.exists() and not given.out.is_dir():
        raise DataError(f"{given.out} is not a directory; with --name-by, pages are written to a directory")
    else:
        check_can_be_written(given.out / "page.html" if given.out.exists() else given.out)


def _read_audit(path: Path) -> Any:
    check_can_be_read(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not the JSON file of an audit: {error}") from None


def _letters(
    given: argparse.Namespace, model: Any, blocks: Iterator[tuple[Block, ArraySource]], text: LetterText, audit: Any
) -> Iterator[tuple[int, Letter]]:
    """Yield the number of each row and its letter."""
    from .._letter.letters import each_letter, ranges_of
    from .._prediction.predictor import MaskedPredictor

    background = None if given.background is None else read_background(given, model)
    intervals = None if given.intervals is None else read_intervals(given.intervals, model)
    for block, people in blocks:
        first = block.first_row
        if given.name_by is None and (first > 1 or len(block) > 1):
            raise DataError(
                f"{given.data} has more than one row, and a page is about one person; --name-by COL writes one for each"
            )
        letters = each_letter(
            model,
            MaskedPredictor(model, people, target_class=given.target_class, num_threads=given.threads),
            [None] * len(block) if given.name_by is None else block.text(given.name_by).to_pylist(),
            text,
            audit=audit,
            sharing=given.sharing,
            favourable=given.favourable,
            background=background,
            ranges=ranges_of(model, people, intervals),
            person=lambda row, first=first: f"{given.data}, row {first + row}: this person",  # type: ignore[misc]
        )
        for row, letter in letters:
            yield first + row, letter


def _write_one(given: argparse.Namespace, letters: Iterator[tuple[int, Letter]]) -> str:
    [(_, letter)] = letters
    write_whole(given.out, letter.to_html().encode("utf-8"))
    return str(given.out)


def _write_each(given: argparse.Namespace, letters: Iterator[tuple[int, Letter]]) -> str:
    from .._letter.letters import file_name

    rows: dict[str, int] = {}
    with folder_written_whole(given.out) as folder:
        for row, letter in letters:
            where = f"{given.data}, row {row}, column {given.name_by!r}"
            if letter.reference is None:
                raise DataError(f"{where} is missing, so the page of this person has no name")
            name = file_name(letter.reference)
            if not name:
                raise DataError(f"{where}: {letter.reference!r} has nothing that can stand in the name of a file")
            # Some systems do not distinguish upper and lower case.
            other = rows.setdefault(name.casefold(), row)
            if other != row:
                raise DataError(f"{where}: {letter.reference!r} gives the same file {name}.html as row {other}")
            (folder / f"{name}.html").write_text(letter.to_html(), encoding="utf-8")
    return f"{len(rows):,} pages to {given.out}"


# People in batches ----------------------------------------------------------------------------------------------------


@contextmanager
def people_in_batches(
    features: list[Column], file: TableFile, further: Sequence[str], what: str, quiet: bool
) -> Iterator[Iterator[tuple[Block, ArraySource]]]:
    """Yield blocks of a file, each with its people as the model sees them; ``further`` columns are read, too.

    Values that the model does not know are noted at the end.
    """
    from .._tables.columns import Absent, Codes
    from .._tables.sources import ArraySource, ColumnTypes

    columns_of_model = ColumnTypes(names=tuple(feature.name for feature in features))
    wanted = [feature.name for feature in features if not isinstance(feature, Absent)]
    with progress(what, quiet) as report, closing(file.blocks([*wanted, *further], report)) as blocks:
        yield ((block, ArraySource(block.matrix(features), columns_of_model)) for block in blocks)
    for feature in features:
        if isinstance(feature, Codes) and feature.n_unknown:
            note(
                f"column {feature.name!r} has {feature.n_unknown:,} values that the model does not know, the first "
                f"{feature.first_unknown}; they were read as missing",
                quiet,
            )


def read_background(given: argparse.Namespace, model: Any) -> Background:
    """Return the people of ``--background``."""
    from .._explaining.game import Background
    from .._prediction.predictor import MaskedPredictor
    from .._tables.sources import ArraySource, ColumnTypes
    from .._tables.table_files import load_table, open_table

    file = open_table(given.background)
    columns = features_of(model, file, given.quiet)
    with progress(f"reading {file.path}", given.quiet) as report:
        matrix = load_table(file, columns, {}, report).source.array
    people = ArraySource(matrix, ColumnTypes(names=tuple(column.name for column in columns)))
    return Background(
        MaskedPredictor(model, people, target_class=given.target_class, num_threads=given.threads), max_samples=1_000
    )
