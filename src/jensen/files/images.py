"""A folder of images as one array with the values of the files: grey (n, h, w), or with channels (n, c, h, w).

Files are sorted by name, including those in subfolders. The class of an image is its first subfolder.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from jensen.files.places import IMAGES
from jensen.runtime.progress import progress

# Modes of Pillow whose numbers are neither grey levels nor red, green and blue, and the modes they are converted to.
READ_AS = {"1": "L", "P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "HSV": "RGB", "LAB": "RGB"}


def read_folder(folder: str | os.PathLike[str]) -> tuple[np.ndarray, list[str | None] | None]:
    """All images, and the class of each (None outside of subfolders); no list if there are no subfolders."""
    files = image_files(Path(folder))
    if not files:
        raise ValueError(
            f"{folder} holds no images and no tables; give a folder of files that end in {', '.join(IMAGES)}"
        )
    first, kind = read_image(files[0])
    images = np.empty((len(files), *first.shape), first.dtype)
    for i, file in enumerate(progress(files, "images", unit="file")):
        image, other = read_image(file)
        if other != kind:
            raise ValueError(
                f"{file} is {other}, but {files[0]} is {kind}; convert all images to one size and mode first, with "
                "Pillow's resize and convert, or leave this one out"
            )
        images[i] = image
    classes = [file.relative_to(folder).parts[0] if file.parent != Path(folder) else None for file in files]
    if images.ndim == 4:
        images = np.ascontiguousarray(np.moveaxis(images, 3, 1))
    return images, classes if any(classes) else None


def image_files(folder: Path) -> list[Path]:
    """The image files, sorted by name; hidden files, such as thumbnails, are left out."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in IMAGES)
    return [folder / path for path in sorted(found) if not any(part.startswith(".") for part in path.parts)]


def read_image(file: Path) -> tuple[np.ndarray, str]:
    """Pixels (h, w) or (h, w, c) of an image with its rotation applied, and its size and mode as text."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as opened:
            image = ImageOps.exif_transpose(opened)
            image = image.convert(READ_AS.get(image.mode, image.mode))
            return np.asarray(image), f"{image.width}×{image.height} {image.mode}"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{file} cannot be read as an image: {error}") from None
