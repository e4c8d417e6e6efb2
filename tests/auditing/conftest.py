"""Reports and their pages, made once for the tests that read them."""

import pytest
from auditing.report_examples import bare, hostile, huge, with_nan

import pucboost as puc
from pucboost._auditing.report import render_html
from pucboost.simulate import LogisticFamily


@pytest.fixture(scope="module")
def reports():
    family = LogisticFamily.teaser()
    people = family.sample(2000, seed=0)
    settings = {"optional": family.optional, "margin": 0.05, "num_threads": 1}
    certified = puc.audit(family.puc_prediction, people.X, people.y, truth=family, **settings)

    def surcharge(X):
        return family.puc_prediction(X) * 0.9 + 0.1 * (X != X).any(axis=1)  # NaN is what is withheld

    older = people.X[:, 0] > 0
    violated = puc.audit(surcharge, people.X, people.y, subgroups={"older": older}, **settings)
    few = puc.audit(family.puc_prediction, people.X[:250], people.y[:250], **settings)
    return {
        "certified": certified,
        "violated": violated,
        "few": few,
        "bare": bare(),
        "nan": with_nan(),
        "huge": huge(),
        "hostile": hostile(),
    }


@pytest.fixture(scope="module")
def pages(reports):
    return {name: render_html(report) for name, report in reports.items()}
