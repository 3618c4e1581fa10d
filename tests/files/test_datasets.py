"""Data by name: folders of images, data of scikit-learn, and the labels that go with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_iris, load_wine

from jensen.files.datasets import read_dataset, read_with_cells, select_features, split_columns
from jensen.files.places import EMBEDDED
from jensen.files.tables import write_dataset

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (3, 4, 5), np.uint8)
COLOURS = RNG.integers(0, 256, (3, 4, 5, 3), np.uint8)


def write(file: Path, pixels: np.ndarray, **options) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file, **options)


class TestFolders:
    def test_grey_images_are_n_h_w_by_name(self, tmp_path):
        for name, pixels in zip(("b.png", "c.bmp", "a.PNG"), GREY, strict=True):
            write(tmp_path / name, pixels)
        found = read_dataset(tmp_path, images=True)
        np.testing.assert_array_equal(found, GREY[[2, 0, 1]])
        assert found.dtype == np.uint8

    def test_colours_are_n_c_h_w(self, tmp_path):
        for i, pixels in enumerate(COLOURS):
            write(tmp_path / f"{i}.png", pixels)
        np.testing.assert_array_equal(read_dataset(tmp_path, images=True), np.moveaxis(COLOURS, 3, 1))

    @pytest.mark.parametrize(
        ("image", "shape", "greatest"),
        [
            (Image.fromarray(GREY[0]).convert("1"), (1, 4, 5), 255),
            (Image.fromarray(COLOURS[0]).convert("P"), (1, 3, 4, 5), 255),
            (Image.fromarray(COLOURS[0]).convert("RGBA"), (1, 4, 4, 5), 255),
            (Image.fromarray(GREY[0].astype(np.uint16) * 257), (1, 4, 5), 65535),
        ],
        ids=["two levels", "palette", "opacity", "16 bits"],
    )
    def test_pixels_are_levels_or_colours_whatever_the_mode(self, tmp_path, image, shape, greatest):
        image.save(tmp_path / "a.png")
        found = read_dataset(tmp_path, images=True)
        assert found.shape == shape
        assert 0.5 * greatest < found.max() <= greatest

    def test_a_photograph_is_the_right_way_up(self, tmp_path):
        # 6 says that the camera was turned: what is saved 5 wide is seen 4 wide.
        exif = Image.Exif()
        exif[0x0112] = 6
        write(tmp_path / "a.png", GREY[0], exif=exif)
        np.testing.assert_array_equal(read_dataset(tmp_path, images=True), np.rot90(GREY[0], -1)[None])

    def test_subfolders_are_labels_and_images_outside_have_none(self, tmp_path):
        for name, pixels in zip(("dog/1.png", "cat/old/2.png", "z.png"), GREY, strict=True):
            write(tmp_path / name, pixels)
        X, y, _ = split_columns(read_dataset(tmp_path, images=True), label="folder")
        np.testing.assert_array_equal(X, GREY[[1, 0, 2]])
        assert type(X) is np.ndarray
        assert y[:2].tolist() == ["cat", "dog"]
        assert pd.isna(y[2])

    def test_what_is_hidden_or_no_image_is_passed_over(self, tmp_path):
        write(tmp_path / "a.png", GREY[0])
        write(tmp_path / ".thumbnails" / "a.png", GREY[0][:2])
        (tmp_path / "._a.png").write_bytes(b"nonsense")
        (tmp_path / "README.txt").write_text("faces")
        assert read_dataset(tmp_path, images=True).shape == (1, 4, 5)

    @pytest.mark.parametrize(
        ("pixels", "message"),
        [
            (GREY[1][:3], "b.png is 5×3 L, but .*a.png is 5×4 L; convert all images to one size and mode"),
            (COLOURS[1], "b.png is 5×4 RGB, but .*a.png is 5×4 L; convert all images"),
            (None, "b.png cannot be read as an image: .*identify"),
        ],
    )
    def test_the_image_that_differs_is_named(self, tmp_path, pixels, message):
        write(tmp_path / "a.png", GREY[0])
        if pixels is None:
            (tmp_path / "b.png").write_bytes(b"nonsense")
        else:
            write(tmp_path / "b.png", pixels)
        with pytest.raises(ValueError, match=message):
            read_dataset(tmp_path, images=True)

    def test_mistakes(self, tmp_path):
        with pytest.raises(
            ValueError, match=r"holds no images and no tables; give a folder of files that end in .png, .jpg"
        ):
            read_dataset(tmp_path, images=True)
        write(tmp_path / "a.png", GREY[0])
        with pytest.raises(ValueError, match=r"images of shape \(4, 5\), and the model takes tables"):
            read_dataset(tmp_path)
        with pytest.raises(ValueError, match=r"there is no column 'folder': images of shape \(4, 5\) have no columns"):
            split_columns(read_dataset(tmp_path, images=True), label="folder")


class TestEmbedded:
    @pytest.mark.parametrize(("name", "load"), [("iris", load_iris), ("wine", load_wine)])
    def test_tables_have_names_and_a_label_beside_them(self, name, load):
        X, y, _ = split_columns(read_dataset(name), label="target")
        assert X.columns.tolist() == load().feature_names
        np.testing.assert_array_equal(X, load().data)
        np.testing.assert_array_equal(y, load().target_names[load().target])
        assert not X.attrs
        X, y, _ = split_columns(read_dataset(name), drop=X.columns[:2])
        assert X.shape[1] == load().data.shape[1] - 2
        assert y is None

    def test_digits_are_images(self):
        X, y, _ = split_columns(read_dataset(Path("digits"), images=True), label="target")
        np.testing.assert_array_equal(X, load_digits().images)
        np.testing.assert_array_equal(y, load_digits().target)
        with pytest.raises(ValueError, match="there is also the label 'target'"):
            split_columns(read_dataset("digits", images=True), label="kind")

    def test_cells_are_those_of_the_table(self):
        pd.testing.assert_frame_equal(read_with_cells("iris").cells, read_dataset("iris"))

    def test_a_file_or_folder_of_that_name_comes_first(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write(tmp_path / "digits" / "a.png", GREY[0])
        assert read_dataset("digits", images=True).shape == (1, 4, 5)
        (tmp_path / "iris").write_text("a\n1\n")
        with pytest.raises(ValueError, match="iris has the suffix ''"):
            read_dataset("iris")

    def test_other_names_are_no_data(self):
        with pytest.raises(FileNotFoundError, match=f"no file mnist; the names of data sets are {', '.join(EMBEDDED)}"):
            read_dataset("mnist")


def test_a_column_comes_before_a_label_beside_the_table():
    table = read_dataset("iris").assign(target=1)
    table.attrs = read_dataset("iris").attrs
    X, y, _ = split_columns(table, label="target")
    assert X.shape == (150, 4)
    assert set(y) == {1}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((8, 8), r"one image of shape \(8, 8\) has no axis of rows; save images as \(n, 8, 8\), one as x\[None\]"),
        ((9, 16), r"rows of shape \(9, 16\) are not images; save images as \(n, 8, 8\)"),
    ],
)
def test_a_model_of_images_needs_an_axis_of_rows(tmp_path, shape, message):
    class OfImages:
        n_features_in_, row_shape_ = 64, (8, 8)

    write_dataset(tmp_path / "one.npy", np.zeros(shape))
    with pytest.raises(ValueError, match=message):
        select_features(OfImages(), read_dataset(tmp_path / "one.npy", images=True))
