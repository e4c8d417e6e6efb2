"""XGBoost is an extra: without it everything else works, and what needs it says how it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "models" / "golden" / "0.2.0"

CHILD = """
import sys
sys.modules["xgboost"] = None  # import xgboost fails

import pickle, lightgbm as lgb, numpy as np, pandas as pd, pucboost as puc
from pathlib import Path
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from pucboost._cli.main import main
from pucboost._persistence import restore
from pucboost.demo import insurance_family

family = insurance_family()
people, test = family.sample(5_000, 0), family.sample(1_000, 1)
columns = ["age", "income", "fitness", "glucose", "history"]
X, X_test = (pd.DataFrame(one.X, columns=columns) for one in (people, test))
params = {"objective": "binary", "optional": ["glucose", "history"], "verbosity": -1, "num_threads": 1}
model = puc.train(params, puc.Dataset(X, people.y), 5, valid_sets=[puc.Dataset(X_test, test.y)])  # native
puc.train({**params, "engine": "lightgbm"}, lgb.Dataset(X, people.y), 5)
puc.save_model(model, "model.txt")
assert type(pickle.loads(pickle.dumps(puc.load_model("model.txt")))) is type(model)
assert list(puc.quote(model, X_test[:3]))
puc.check(X[:1000], y=people.y[:1000], optional=["glucose"], num_threads=1)
report = puc.audit(model, X_test, test.y, margin=0.1, num_threads=1)
puc.card(model, audit=report)
puc.letter(model, X_test[:1], quantity="risk").to_html("letter.html")
puc.monitor(model, X_test, test.y, margin=0.1, num_threads=1)
full = ["age", "income"]
for other in (
    puc.PUCClassifier(optional=["glucose"], n_estimators=5, n_jobs=1).fit(X, people.y),
    HistGradientBoostingClassifier(max_iter=5).fit(X, people.y),
    lambda table: np.full(len(table), 0.5),
):
    puc.audit(other, X_test, test.y, optional=["glucose"], margin=0.1, num_threads=1)
anchor = LogisticRegression().fit(X[full], people.y)
puc.train({**params, "optional": columns[2:], "anchor": anchor}, puc.Dataset(X, people.y), 3)
import pucboost.dask
assert main(["doctor", "--no-test"]) == 0

table = puc.Dataset(X, people.y)
for needing in (
    lambda: puc.train({**params, "engine": "xgboost"}, table, 2),
    lambda: puc.cv({**params, "engine": "xgboost"}, table, 2),
    lambda: puc.PUCClassifier(optional=["glucose"], engine="xgboost").fit(X, people.y),
    lambda: puc.load_model(GOLDEN / "xgboost.json"),
    lambda: puc.load_model(GOLDEN / "anchored_xgboost.json"),
    lambda: restore("XGBoostBooster", puc.__version__, {}),  # what a pickle calls
):
    try:
        needing()
    except ImportError as error:
        print(error)
print(main(["predict", str(GOLDEN / "xgboost.json"), str(GOLDEN / "people.csv"), "--out", "out.csv"]))
"""


def test_without_xgboost(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD.replace("GOLDEN", f"Path({str(GOLDEN)!r})")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    says = (
        "XGBoost is not installed: pip install 'pucboost[xgboost]', or 'pucboost[xgboost-cpu]' for the small build "
        "without GPUs."
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-7:] == [says] * 6 + ["3"]
    assert re.search(f"pucboost: error: .*xgboost.json: {re.escape(says)}\n$", done.stderr)
