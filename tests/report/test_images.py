"""Pictures: where every pixel goes, and which shade it gets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from jensen.report.images import check_images, image_grid, scale_of, strip, write_png

LIGHT = 224
RAMP = np.array([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [5.0, 5.0]], [[0.0, 0.0], [0.0, 5.0]]])


class TestGrid:
    def test_images_stand_row_by_row_with_light_lines_between(self):
        expected = [
            [0, 51, LIGHT, 204, 255],
            [102, 153, LIGHT, 255, 255],
            [LIGHT] * 5,
            [0, 0, LIGHT, LIGHT, LIGHT],
            [0, 255, LIGHT, LIGHT, LIGHT],
        ]
        picture = image_grid(RAMP, scale=1)
        assert picture.dtype == np.uint8
        np.testing.assert_array_equal(picture, expected)

    def test_columns_are_as_asked(self):
        assert image_grid(np.zeros((5, 2, 3)), n_columns=5, scale=1).shape == (2, 5 * 3 + 4)
        assert image_grid(np.zeros((5, 2, 3)), n_columns=1, scale=1).shape == (5 * 2 + 4, 3)

    def test_pixels_become_squares(self):
        picture = image_grid(RAMP[:1], scale=3)
        np.testing.assert_array_equal(picture, np.kron(image_grid(RAMP[:1], scale=1), np.ones((3, 3), int)))

    @pytest.mark.parametrize(("shape", "n_columns"), [((64, 8, 8), None), ((1, 8, 8), None), ((30, 28, 28), 10)])
    def test_a_picture_is_about_800_pixels_wide(self, shape, n_columns):
        assert image_grid(np.zeros(shape), n_columns).shape[1] == pytest.approx(800, rel=0.15)

    def test_large_images_keep_their_pixels(self):
        assert image_grid(np.zeros((1, 2, 1000))).shape == (2, 1000)

    @pytest.mark.parametrize("to", [np.asarray, torch.as_tensor, lambda x: x.astype(np.uint8)])
    def test_any_array_of_numbers_will_do(self, to):
        np.testing.assert_array_equal(image_grid(to(RAMP)), image_grid(RAMP))

    def test_one_channel_is_grey(self):
        np.testing.assert_array_equal(image_grid(RAMP[:, None]), image_grid(RAMP))

    def test_three_channels_are_colours(self):
        red = np.zeros((2, 3, 2, 2))
        red[:, 0] = 1
        picture = image_grid(red, scale=1)
        assert picture.shape == (2, 5, 3)
        np.testing.assert_array_equal(picture[0], [[255, 0, 0], [255, 0, 0], [LIGHT] * 3, [255, 0, 0], [255, 0, 0]])

    def test_the_fourth_channel_is_opacity_and_lines_are_opaque(self):
        picture = image_grid(np.zeros((2, 4, 2, 2)), scale=1, limits=(0, 1))
        assert picture.shape == (2, 5, 4)
        np.testing.assert_array_equal(picture[0, 2], [LIGHT, LIGHT, LIGHT, 255])
        np.testing.assert_array_equal(picture[0, 1], [0, 0, 0, 0])


class TestShades:
    def test_limits_are_black_and_white_and_cut_off_what_is_outside(self):
        picture = image_grid(np.array([[[-1.0, 0.0, 5.0, 10.0, 99.0, np.inf]]]), scale=1, limits=(0, 10))
        np.testing.assert_array_equal(picture, [[0, 0, 128, 255, 255, 255]])

    def test_without_limits_all_images_share_theirs(self):
        assert image_grid(np.array([[[2.0]], [[4.0]]]), scale=1).tolist() == [[0, LIGHT, 255]]

    def test_what_is_missing_is_light(self):
        assert image_grid(np.array([[[np.nan, 1.0, 2.0]]]), scale=1).tolist() == [[LIGHT, 0, 255]]
        assert image_grid(np.full((1, 1, 1), np.nan), scale=1).tolist() == [[LIGHT]]

    def test_one_value_alone_is_black(self):
        assert image_grid(np.full((1, 1, 2), 7.0), scale=1).tolist() == [[0, 0]]

    def test_infinity_is_no_limit(self):
        assert image_grid(np.array([[[0.0, 1.0, np.inf, -np.inf]]]), scale=1).tolist() == [[0, 255, 255, 0]]

    @pytest.mark.parametrize(
        ("low", "high", "scale"),
        [
            (0.3, 0.9, (0, 1)),
            (-0.2, 0.9, (-1, 1)),
            (200, 255, (0, 255)),
            (0, 16, (0, 16)),
            (-3, 5, (-3, 5)),
            (0, 65535, (0, 65535)),
            (7, 7, (7, 8)),
        ],
    )
    def test_black_and_white_are_those_of_the_usual_scales(self, low, high, scale):
        assert scale_of(low, high) == scale

    def test_pale_images_stay_pale(self):
        assert image_grid(np.array([[[0.8, 1.0]]]), scale=1).tolist() == [[204, 255]]
        assert image_grid(np.array([[[200, 250]]], np.uint8), scale=1).tolist() == [[200, 250]]


class TestStrip:
    def test_rows_are_images_and_columns_are_steps(self):
        steps = [np.array([[[0.0]], [[5.0]]]), np.array([[[1.0]], [[4.0]]]), np.array([[[2.0]], [[3.0]]])]
        expected = [[0, LIGHT, 51, LIGHT, 102], [LIGHT] * 5, [255, LIGHT, 204, LIGHT, 153]]
        np.testing.assert_array_equal(strip(steps, scale=1), expected)

    def test_colours_and_limits(self):
        picture = strip([np.ones((2, 3, 4, 4)), np.zeros((2, 3, 4, 4))], scale=1, limits=(-1, 1))
        assert picture.shape == (9, 9, 3)
        assert (picture[0, 0, 0], picture[0, 5, 0]) == (255, 128)

    def test_steps_must_be_alike(self):
        with pytest.raises(ValueError, match=r"same images at every step, got shapes \(2, 1, 1\) and \(3, 1, 1\)"):
            strip([np.zeros((2, 1, 1)), np.zeros((3, 1, 1))])
        with pytest.raises(ValueError, match="got shapes none; give arrays of one shape"):
            strip([])


class TestFiles:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_pixels_survive(self, tmp_path, channels):
        picture = image_grid(np.random.default_rng(0).random((3, channels, 4, 4)))
        write_png(picture, tmp_path / "x.png")
        with Image.open(tmp_path / "x.png") as found:
            assert found.format == "PNG"
            np.testing.assert_array_equal(np.asarray(found), picture)

    @pytest.mark.parametrize("array", [np.zeros((2, 2)), np.zeros((2, 2, 2), np.uint8), np.zeros(2, np.uint8)])
    def test_only_pixels_are_written(self, tmp_path, array):
        with pytest.raises(ValueError, match=r"give uint8 pixels \(H, W\), .* as image_grid returns"):
            write_png(array, tmp_path / "x.png")


class TestMistakes:
    @pytest.mark.parametrize("shape", [(8, 8), (0, 8, 8), (1, 1, 1, 8, 8)])
    def test_not_images(self, shape):
        with pytest.raises(ValueError, match=r"cannot be shown; give at least one, \(n, h, w\) or \(n, c, h, w\)"):
            image_grid(np.zeros(shape))

    @pytest.mark.parametrize("shape", [(5, 2, 8, 8), (5, 8, 8, 3)])
    def test_other_channels(self, shape):
        with pytest.raises(
            ValueError, match=f"have {shape[1]} channels; a picture has 1, 3 or 4, .*move channels to the second axis"
        ):
            check_images(shape)

    @pytest.mark.parametrize("limits", [(1, 1), (2, 1), (0, np.nan), (0, np.inf), (-np.inf, 0)])
    def test_limits(self, limits):
        with pytest.raises(ValueError, match="must be two finite numbers, black below white"):
            image_grid(RAMP, limits=limits)

    @pytest.mark.parametrize("name", ["n_columns", "scale"])
    def test_counts(self, name):
        with pytest.raises(ValueError, match=f"{name}=0 must be a whole number, 1 or more"):
            image_grid(RAMP, **{name: 0})
