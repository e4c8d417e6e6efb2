"""Pages that run code do so in an empty folder of their own, as in the tests: the files they write leave no trace."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, chdir
from typing import Any

_folder = ExitStack()


def on_page_markdown(markdown: str, **_: Any) -> None:
    """Enter a new folder before the blocks of the page are run."""
    if 'exec="on"' in markdown:
        _folder.enter_context(
            chdir(_folder.enter_context(tempfile.TemporaryDirectory()))
        )


def on_page_content(html: str, **_: Any) -> None:
    """Leave it once the page is rendered."""
    _folder.close()
