"""Warnings at the line of the user, and the one about protection that is lost."""

from __future__ import annotations

import sys
import warnings

BETWEEN = ("pucboost", "sklearn", "functools")
"""Packages whose frames lie between the user's line and a warning: pipelines call our estimators."""


class ProtectionLostWarning(UserWarning):
    """The protection of a model is lost, or may be, by what others have done with it.

    - XGBoost copies the attributes of a booster into every model that it makes of it, also into one that it has
      continued (``xgb.train(..., xgb_model=booster)``) or refreshed on rows as they are. Such a model may read silence,
      and counts as a model without consent schema.
    - ``lgb.train`` and ``lgb.cv`` train on the rows of a :class:`Dataset` as they are, whatever is optional.

    Examples
    --------
    >>> import warnings
    >>> import pucboost as puc
    >>> warnings.filterwarnings("error", category=puc.ProtectionLostWarning)  # stop, in place of going on without
    """


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called pucboost, however deep inside the package the reason was found.

    Frames are only counted. From Python 3.12 on ``skip_file_prefixes`` does this.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
