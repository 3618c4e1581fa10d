"""Images side by side in one picture, as an array of pixels and as a PNG file.

Black and white are the ends of the scale of the data: 0 and 1, -1 and 1, or 0 and 255; on another scale they are the
least and the greatest value. Values beyond are clipped, so that one bright sample does not darken all others. Missing
pixels, lines between images and empty places are light grey.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from jensen.contract import whole_number
from jensen.files.replacing import replacing

LIGHT = 224
# The approximate width of a picture in pixels.
WIDTH = 800
# Black and white on the usual scales of images.
UNIT, SIGNED, BYTES = (0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)


def image_grid(
    images: Any,
    n_columns: int | None = None,
    scale: int | None = None,
    limits: tuple[float, float] | None = None,
) -> np.ndarray:
    """All images in one, row by row, with thin light lines between them: uint8 (H, W), or (H, W, c) with colours.

    Args:
        images: (n, h, w), or (n, c, h, w) with one channel, three for colours, or four with opacity.
        n_columns: images in a row; None makes a square.
        scale: the size of a pixel in the picture; None makes a picture about 800 pixels wide.
        limits: the values that are black and white; values beyond are clipped. None guesses the scale from the least
            and greatest value.

    Example:
        >>> import numpy as np
        >>> from jensen.report.images import image_grid
        >>> image_grid(np.array([[[0.0, 1.0]], [[0.5, 1.0]]]), scale=1)
        array([[  0, 255, 224, 128, 255]], dtype=uint8)
    """
    values = np.asarray(images)
    check_images(values.shape)
    n, h, w = len(values), *values.shape[-2:]
    pixels = shades(values.reshape(n, -1, h, w), limits).transpose(0, 2, 3, 1)
    n_columns = math.ceil(math.sqrt(n)) if n_columns is None else whole_number("n_columns", n_columns)
    scale = max(1, round(WIDTH / (n_columns * w))) if scale is None else whole_number("scale", scale)
    pixels = pixels.repeat(scale, axis=1).repeat(scale, axis=2)
    gap = 1 + scale // 4
    down, along = h * scale + gap, w * scale + gap
    picture = np.full((-(-n // n_columns) * down - gap, n_columns * along - gap, pixels.shape[-1]), LIGHT, np.uint8)
    # The lines are opaque.
    picture[..., 3:] = 255
    for i, image in enumerate(pixels):
        top, left = i // n_columns * down, i % n_columns * along
        picture[top : top + h * scale, left : left + w * scale] = image
    return picture[..., 0] if picture.shape[-1] == 1 else picture


def strip(steps: Sequence[Any], scale: int | None = None, limits: tuple[float, float] | None = None) -> np.ndarray:
    """How images change over steps, as in `sample_path`: a row per image and a column per step.

    Args:
        steps: the same n images at every step, each (n, h, w) or (n, c, h, w).
        scale: as in `image_grid`.
        limits: as in `image_grid`.

    Example:
        >>> import numpy as np
        >>> from jensen.report.images import strip
        >>> strip([np.zeros((2, 8, 8)), np.ones((2, 8, 8)), np.ones((2, 8, 8))], scale=1).shape
        (17, 26)
    """
    batches = [np.asarray(batch) for batch in steps]
    shapes = [batch.shape for batch in batches]
    if not shapes or any(shape != shapes[0] for shape in shapes):
        found = " and ".join(map(str, dict.fromkeys(shapes))) or "none"
        raise ValueError(f"steps must hold the same images at every step, got shapes {found}; give arrays of one shape")
    check_images(shapes[0])
    return image_grid(np.stack(batches, axis=1).reshape(-1, *shapes[0][1:]), len(batches), scale, limits)


def write_png(array: np.ndarray, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write pixels, uint8 (H, W), (H, W, 3) or (H, W, 4), to a PNG file, given by path or open."""
    from PIL import Image

    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not is_picture:
        raise ValueError(
            f"array holds {array.dtype} of shape {array.shape}; give uint8 pixels (H, W), (H, W, 3) or (H, W, 4), "
            "as image_grid returns"
        )
    picture = Image.fromarray(array)
    if isinstance(path, (str, os.PathLike)):
        with replacing(path) as aside:
            picture.save(aside, format="PNG")
    else:
        picture.save(path, format="PNG")


def check_images(shape: tuple[int, ...]) -> None:
    """An error unless arrays of this shape are images that can be shown."""
    if len(shape) not in (3, 4) or not math.prod(shape):
        raise ValueError(f"images of shape {shape} cannot be shown; give at least one, (n, h, w) or (n, c, h, w)")
    if len(shape) == 4 and shape[1] not in (1, 3, 4):
        raise ValueError(
            f"images of shape {shape} have {shape[1]} channels; a picture has 1, 3 or 4, (n, c, h, w): choose some of "
            "them, or move channels to the second axis"
        )


def scale_of(low: float, high: float) -> tuple[float, float]:
    """The values shown as black and white, for images with values between low and high.

    Values are taken as bytes only if some are above 127: with few levels, such as 0 to 16, the highest one is white.
    """
    if low >= UNIT[0] and high <= UNIT[1]:
        return UNIT
    if low >= SIGNED[0] and high <= SIGNED[1]:
        return SIGNED
    if low >= BYTES[0] and BYTES[1] / 2 < high <= BYTES[1]:
        return BYTES
    # A single value is black.
    return float(low), float(high if high > low else low + 1)


def shades(values: np.ndarray, limits: tuple[float, float] | None) -> np.ndarray:
    """Values as uint8 from 0 at the lower limit to 255 at the upper."""
    values = values.astype(np.float64)
    if limits is None:
        seen = values[np.isfinite(values)]
        low, high = scale_of(seen.min(), seen.max()) if seen.size else UNIT
    else:
        low, high = limits
        if not (math.isfinite(low) and low < high < math.inf):
            raise ValueError(f"limits={limits!r} must be two finite numbers, black below white")
    shade = np.clip((values - low) / (high - low), 0, 1) * 255
    return np.where(np.isnan(shade), LIGHT, np.rint(shade)).astype(np.uint8)
