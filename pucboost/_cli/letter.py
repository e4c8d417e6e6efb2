"""``pucboost letter``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import DataError, check_can_be_written, folder_written_whole, write_whole
from .shared import EXIT_CODES, TABLE_FILES, Commands, add_inputs, add_quiet, features_of, load, note, people_in_batches

if TYPE_CHECKING:
    from .._letter.letters import Letter
    from .._letter.text import LetterText
    from .._tables.sources import ArraySource
    from .._tables.table_files import Block


_EPILOG = f"""\
example:
  A page for the one person in person.csv, and one for each person in
  people.csv, named after the column id:

    pucboost letter model.txt person.csv --out quote.html
    pucboost letter model.txt people.csv --name-by id --text letter.toml \\
        --out letters/

output:
  HTML pages that load nothing and send nothing. Each says what the person is
  told now, and what they would be told for every choice among the groups they
  share (at most 10). Give each page only to the person it is about.

--text:
  A TOML file with what is to be worded differently; the rest keeps its
  default:

    quantity = "yearly price"
    [groups]
    blood = "your blood test"
    [number]
    prefix = "€"
    decimals = 0

  In Python, puc.letters.LetterText().to_toml("letter.toml") writes all texts.

{TABLE_FILES}

{EXIT_CODES}"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "letter",
        help="write pages that tell people what their choices of what to share would give",
        description="Write a page for a person, or for each in a table file: what they would be told\nfor every choice "
        "among the data they share.",
        epilog=_EPILOG,
    )
    add_inputs(parser)
    parser.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help="page to write; with --name-by, a folder for the pages"
    )
    parser.add_argument(
        "--name-by", metavar="COL", help="write a page for each person, named after this column, which it also shows"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help="words, names of groups and look of numbers")
    parser.add_argument(
        "--sharing",
        choices=("as_given", "best"),
        default="as_given",
        help="what people are told: the prediction from everything they share (default), or the most favourable one "
        "over all subsets of it",
    )
    parser.add_argument(
        "--favourable", choices=("lower", "higher"), help="which predictions people prefer; needed for --sharing best"
    )
    parser.add_argument(
        "--target-class", type=int, metavar="N", help="number of the class to tell people about, if there are several"
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    from .._letter.text import LetterText
    from .._tables.table_files import check_columns, open_table

    _check_options(given)
    text = LetterText() if given.text is None else LetterText.from_toml(given.text)
    file = open_table(given.data)
    further = [] if given.name_by is None else [given.name_by]
    check_columns(file, further, "--name-by")
    model = load(given.model)
    features = features_of(model, file, given.quiet)
    with people_in_batches(features, file, further, "writing letters", given.quiet) as batches:
        letters = _letters(given, model, batches, text)
        written = _write_one(given, letters) if given.name_by is None else _write_each(given, letters)
    note(f"wrote {written}", given.quiet)
    return 0


def _check_options(given: argparse.Namespace) -> None:
    """Raise for options that do not go together, and for what cannot be written, before anything is read."""
    if given.sharing == "best" and given.favourable is None:
        raise DataError("--sharing best needs --favourable lower (a price) or --favourable higher (an approval)")
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


def _letters(
    given: argparse.Namespace, model: Any, blocks: Iterator[tuple[Block, ArraySource]], text: LetterText
) -> Iterator[tuple[int, Letter]]:
    """Yield the number of each row and its letter."""
    from .._letter.letters import each_letter, no_room
    from .._prediction.predictor import MaskedPredictor

    for block, people in blocks:
        if given.name_by is None and (block.first_row > 1 or len(block) > 1):
            raise DataError(
                f"{given.data} has more than one row, and a page is about one person; --name-by COL writes one for each"
            )
        predictor = MaskedPredictor(model, people, target_class=given.target_class)
        too_many = no_room(predictor.shared, predictor.consent.nesting)
        if too_many is not None:  # puc.letters would not give the row number in the file
            raise DataError(f"{given.data}, row {block.first_row + too_many[0]}: this person {too_many[1]}")
        references = [None] * len(block) if given.name_by is None else block.text(given.name_by).to_pylist()
        for row, letter in each_letter(predictor, text, references, sharing=given.sharing, favourable=given.favourable):
            yield block.first_row + row, letter


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
