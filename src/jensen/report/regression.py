"""Panels of a regression: coefficients with standard deviations, and predictions beside true values."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

from jensen.data.container import as_array
from jensen.report import charts
from jensen.report.charts import Series, number
from jensen.report.html import table
from jensen.report.subject import Subject


def coefficients(subject: Subject) -> tuple[str, str, str] | None:
    model = subject.model
    if not is_regressor(model):
        return None
    values = np.atleast_2d(as_array(model.coef_))
    columns = {"column": subject.names} | {
        f"coefficient {i}" if i else "coefficient": row for i, row in enumerate(values)
    }
    text = "The change of y when a column increases by one."
    if len(values) == 1:
        columns["± s.d."] = np.sqrt(as_array(model.posterior().variance)).ravel()
        text += " ± is the standard deviation of its posterior."
    return "Coefficients", text, table(pd.DataFrame(columns), sortable=True)


def predictions(subject: Subject) -> tuple[str, str, str] | None:
    model = subject.model
    if not is_regressor(model) or subject.y is None or np.ndim(subject.y) != 1:
        return None
    shown = subject.few(charts.MOST_MARKS // 2)
    y, found = as_array(shown.y).astype(np.float64), as_array(model.predict(shown.model_rows))
    low, high = charts.span([y, found])
    error = number(float(np.sqrt(np.mean((y - found) ** 2))))
    text = (
        f"The diagonal is good: predicted equals true. The root mean squared error is {error}; predicting the mean "
        f"of y would give {number(y.std())}."
    )
    tips = [
        f"row {shown.number(i)}: {number(a)}, predicted {number(b)}"
        for i, (a, b) in enumerate(zip(y, found, strict=True))
    ]
    line = [np.array([[low, low], [high, high]])]
    return "Predictions", text, charts.scatter([Series("rows", y, found, tips)], "true", "predicted", text, line=line)
