"""Tune with Optuna, once on raw validation data and once under consent, with a picture.

On people as they are, the model that reads silence has the smaller loss, and an unrestricted search finds it.
``puc.metrics.puc_score`` respects consent: it asks what the model would tell the same people if they shared less. Saves
``tuning_under_consent.png`` in the current folder; needs matplotlib and optuna.

What to look at: the search on raw data chooses no protection at all, and calls it the better model.
"""

from __future__ import annotations

import lightgbm as lgb
import matplotlib
import numpy as np
import optuna
import pandas as pd
from sklearn.metrics import log_loss

import pucboost as puc
from pucboost.demo import OPTIONAL_NAMES, insurance_family

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TRIALS = 12
FAMILY = insurance_family()


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return simulated people who share less often if they will claim."""
    sample = FAMILY.sample(n, seed)
    return pd.DataFrame(sample.X, columns=["age", "income", *OPTIONAL_NAMES]), sample.y


TRAIN, VALID, TEST = people(5_000, seed=0), people(5_000, seed=1), people(20_000, seed=2)


def raw_loss(booster: lgb.Booster) -> float:
    """Return the loss on the validation people as they are."""
    X, y = VALID
    return float(log_loss(y, booster.predict(X)))


def consent_loss(booster: lgb.Booster) -> float:
    """Return the loss on virtual rows: for each set of groups, all who share at least that, the rest erased."""
    return -puc.metrics.puc_score(booster, *VALID, metric="neg_log_loss", optional=OPTIONAL_NAMES)


def fit(trial: optuna.trial.BaseTrial) -> lgb.Booster:
    """Train what a trial suggests; the search may choose no protection at all."""
    params = {
        "objective": "binary",
        "num_leaves": trial.suggest_int("num_leaves", 4, 32, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.2, log=True),
        "augmentation": trial.suggest_categorical("augmentation", ["none", "balanced"]),
        "optional": OPTIONAL_NAMES,
        "verbosity": -1,
        "num_threads": 1,  # as fast on small data, and other work on the machine does not slow it down
        "seed": 0,
    }
    if params["augmentation"] == "balanced":
        params["copies"] = trial.suggest_int("copies", 1, 4)
    return puc.train(params, lgb.Dataset(*TRAIN), 50)


def search(objective: str) -> optuna.Study:
    """Minimise one of the two losses; record both."""

    def run(trial: optuna.Trial) -> float:
        booster = fit(trial)
        losses = {"raw": raw_loss(booster), "consent": consent_loss(booster)}
        for name, loss in losses.items():
            trial.set_user_attr(name, loss)
        return losses[objective]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=6))
    study.optimize(run, n_trials=TRIALS)
    return study


def main() -> None:
    """Search twice; say what each search found and what it does to those who share nothing."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    studies = {"raw": search("raw"), "consent": search("consent")}
    X, _ = TEST
    silent = X[OPTIONAL_NAMES].isna().all(axis=1)
    justified = FAMILY.puc_prediction(X[silent].to_numpy())
    for name, study in studies.items():
        best = study.best_trial
        surcharge = 100 * np.mean(fit(best).predict(X[silent]) - justified)
        chosen = ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in best.params.items())
        print(f"tuned on the {name} loss: {chosen}")
        print(f"    raw loss {best.user_attrs['raw']:.4f}, consent loss {best.user_attrs['consent']:.4f}", end=", ")
        print(f"surcharge for silence {surcharge:+.1f} percentage points")
    draw_picture(studies)
    print("saved tuning_under_consent.png")


def draw_picture(studies: dict[str, optuna.Study]) -> None:
    """Save the two losses of all trials."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    trials = [trial for study in studies.values() for trial in study.trials]
    for augmentation, label, colour, marker in (
        ("none", "plain training", "#b5532a", "s"),
        ("balanced", "protected", "#2a6f97", "o"),
    ):
        shown = [t.user_attrs for t in trials if t.params["augmentation"] == augmentation]
        place = [t["raw"] for t in shown], [t["consent"] for t in shown]
        axes.plot(*place, marker, color=colour, alpha=0.7, mec="white", markersize=8, label=label)
    for name, study in studies.items():
        best = study.best_trial.user_attrs
        axes.plot(best["raw"], best["consent"], "o", color="black", mfc="none", markersize=16, mew=1.5)
        side = {"raw": {"xytext": (14, 0), "ha": "left"}, "consent": {"xytext": (-14, 0), "ha": "right"}}[name]
        place = best["raw"], best["consent"]
        axes.annotate(f"tuned on the {name} loss", place, textcoords="offset points", va="center", **side)
    axes.set_xlabel("raw loss: validation people as they are")
    axes.set_ylabel("consent loss: the same people,\nand what they are told if they share less")
    axes.set_title("A search on raw validation data picks the model that reads silence", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper center")
    figure.savefig("tuning_under_consent.png", dpi=150)


if __name__ == "__main__":
    main()
