"""Figures show themselves in a notebook that never imported pyplot."""

import subprocess
import sys

from jensen.runtime.figures import Drawn


def test_a_figure_is_a_picture_of_itself():
    figure = Drawn(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    assert figure._repr_png_().startswith(b"\x89PNG\r\n\x1a\n")


def test_it_needs_no_pyplot():
    code = "import sys; from jensen.runtime.figures import Drawn; Drawn()._repr_png_(); "
    code += "print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
