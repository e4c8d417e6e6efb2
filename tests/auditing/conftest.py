"""Reports and their pages, made once for the tests that read them."""

import pytest
from auditing.golden.write import variants
from auditing.report_examples import bare, golden, hostile, huge, with_nan

from pucboost._auditing.report import render_html


@pytest.fixture(scope="session")
def reports():
    """The golden report (violated for some), one that is certified, and what is hard to show."""
    certified = variants(golden())["all sets pass"]
    return {
        "golden": golden(),
        "certified": certified,
        "bare": bare(),
        "nan": with_nan(),
        "huge": huge(),
        "hostile": hostile(),
    }


@pytest.fixture(scope="session")
def pages(reports):
    return {name: render_html(report) for name, report in reports.items()}
