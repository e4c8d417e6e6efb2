"""Who called us: where a warning belongs, and whether another learner is asking, for predictions or for data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

NOT_THE_CALLER = ("pucboost", "sklearn", "joblib", "functools")
"""Packages whose frames lie between the user's call and a warning."""

SECOND_LEARNERS = {
    "sklearn.calibration": "a calibrator",
    "sklearn.ensemble._stacking": "a stacking estimator",
}
"""Modules of scikit-learn that fit something to the predictions of another estimator."""


class ProtectionLostWarning(UserWarning):
    """The protection of a model is lost, or may be, by what others have done with it.

    - XGBoost copies what a booster says about itself into every model that it makes of it, also into one that it has
      continued (``xgb.train(..., xgb_model=booster)``) or refreshed on rows as they are. Such a model may read silence,
      and counts as a model without consent schema.
    - ``lgb.train(..., init_model=booster)`` and ``lgb.cv`` grow further trees on rows as they are.
    - ``CalibratedClassifierCV`` and stacking estimators fit a second learner to the predictions of one of our
      estimators for rows as they are. It learns from them what silence tells.

    Examples
    --------
    >>> import warnings
    >>> import pucboost as puc
    >>> warnings.filterwarnings("error", category=puc.ProtectionLostWarning)  # stop, in place of going on without
    """


def _callers() -> Iterator[FrameType]:
    """Yield the frames from the caller of our caller outwards."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def users_level() -> int:
    """Return the ``stacklevel``, for the caller, of the first frame that is neither ours nor scikit-learn's."""
    level = 0
    for frame in _callers():
        level += 1
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in NOT_THE_CALLER:
            break
    return level


def called_by(places: tuple[str, ...]) -> bool:
    """Return whether one of these functions (module and qualified name) is among the callers."""
    return any(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}" in places for frame in _callers())


def second_learner() -> str | None:
    """Return what is being fitted to predictions that we are asked for, if it is one of scikit-learn's; else None."""
    for frame in _callers():
        name = SECOND_LEARNERS.get(str(frame.f_globals.get("__name__")))
        if name is not None and "fit" in frame.f_code.co_name:
            return name
    return None
