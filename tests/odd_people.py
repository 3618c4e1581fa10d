"""People with two planted errors: the weight of row 7 and the visits of row 11."""

import numpy as np
import pandas as pd


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    height = rng.normal(170, 8, size=n)
    table = pd.DataFrame(
        {
            "id": [f"person {i}" for i in range(n)],
            "height": height,
            "weight": height - 100 + rng.normal(0, 4, size=n),
            "visits": rng.poisson(3, size=n),
            "town": np.where(height + rng.normal(0, 2, size=n) > 170, "Bonn", "Rome"),
        }
    )
    table.loc[7, "weight"] = 20.0
    table.loc[11, "visits"] = 60
    table.loc[20, "height"] = None
    return table
