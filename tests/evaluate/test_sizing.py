"""Sizes follow from the shape of the rows, and stay within the work of an effort."""

import numpy as np
import pytest

from jensen import compare
from jensen.evaluate.candidates import entrants
from jensen.evaluate.footing import find_footing
from jensen.evaluate.sizing import EFFORTS, affordable, diffusion_training, factor_work, sized_split, table_training

SHAPES = [(300, 6), (20_000, 20), (2000, 28, 28), (180, 3, 32, 32), (60, 3, 128, 128)]


def footing_of(shape, levels=256):
    return find_footing(np.random.default_rng(0).integers(0, levels, (20, *shape[1:])), "auto")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_no_grid_is_above_its_share(shape, effort):
    size, d = EFFORTS[effort], int(np.prod(shape[1:]))
    trained, scored = sized_split(shape[0], footing_of(shape), 0.2, size)
    assert trained * d <= max(size.most_entries, 200 * d)
    assert scored <= size.most_held_out
    auto = entrants(footing_of(shape), trained, 0, size, 0, scored)
    grid = auto["factor analysis"].grid["n_components"]
    assert grid == sorted(grid)
    work = [factor_work(trained, d, m, size.em_steps) for m in grid]
    assert len(work) == 1 or sum(work) <= size.share
    assert max(grid) < max(trained, 2)
    many = entrants(footing_of(shape), trained, 0, size, 0, scored, n_folds=5)
    assert len(many["factor analysis"].grid["n_components"]) <= len(grid)


def test_small_tables_have_what_the_effort_has():
    size = EFFORTS["quick"]
    found = table_training(6, 12, 60, size)
    assert (found.steps, found.levels, found.batch_size) == (size.steps, 100, 128)
    assert entrants(footing_of((300, 6)), 240, 0, size, 0)["Gaussian mixture"].grid["n_components"] == [1, 2, 5, 10]
    assert entrants(footing_of((300, 6)), 240, 0, size, 0).reduced == ""


def test_images_have_a_unet_if_it_can_be_trained():
    digits = diffusion_training(footing_of((1797, 8, 8), 17), 1437, 360, EFFORTS["quick"])
    assert digits.is_unet
    assert digits.steps == EFFORTS["quick"].image_steps
    # Of patches, and with the levels of an eighth of the pixels in training, larger images have all steps, too.
    grey = diffusion_training(footing_of((2000, 28, 28)), 1275, 400, EFFORTS["quick"])
    assert (grey.is_unet, grey.patch, grey.steps) == (True, 2, EFFORTS["quick"].image_steps)
    colour = diffusion_training(footing_of((300, 3, 32, 32)), 240, 60, EFFORTS["quick"])
    assert (colour.is_unet, colour.patch) == (True, 2)
    assert EFFORTS["quick"].image_steps >= colour.steps >= 0.25 * EFFORTS["quick"].image_steps
    assert diffusion_training(footing_of((300, 3, 32, 32)), 240, 60, EFFORTS["thorough"]).is_unet


def test_wide_rows_have_one_mixture_of_subspaces():
    """An M-step reads loadings of 49 152 x 8 several times, 0.07 s: 800 of them are more than the 22 s of an effort."""
    grid = entrants(footing_of((60, 3, 128, 128)), 48, 0, EFFORTS["quick"], 0, 12)["mixture of PPCA"].grid
    assert [len(values) for values in grid.values()] == [1, 1]
    grid = entrants(footing_of((2000, 28, 28)), 1275, 0, EFFORTS["quick"], 0, 400)["mixture of PPCA"].grid
    assert max(len(values) for values in grid.values()) > 1


def test_sizes_share_the_work():
    assert affordable([3, 1, 2], float, 3.0) == [1, 2]
    assert affordable([3, 5], float, 1.0) == [3]


def test_the_caption_says_what_is_smaller():
    rows = np.random.default_rng(0).normal(size=(60_000, 20))
    board = compare(rows, ["probabilistic-pca"], effort="quick")
    assert "1000 of 60000 rows held out; effort='quick' trains on 50000 of the other 59000" in board.caption
    reduced = entrants(footing_of((60, 3, 128, 128)), 48, 0, EFFORTS["quick"], 0, 12).reduced
    assert reduced.startswith("networks are sized to the effort: ")
    assert "no U-Net" in reduced
    # n d² of 48 images with 49 152 entries are minutes.
    assert "no latent curve" in reduced
    large = entrants(footing_of((60, 3, 128, 128)), 48, 0, EFFORTS["quick"], 0, 12)
    assert "latent curve" not in list(large)
    assert "latent curve" in large
    assert "latent curve" in list(entrants(footing_of((2000, 28, 28)), 1275, 0, EFFORTS["quick"], 0, 400))


def test_a_grid_whose_levels_are_too_many_to_add_up_has_none():
    # Colours of 32 x 32: ten levels of 104 rows take half of the 18 s; 28 x 28 grey values leave all 400 rows.
    small, large = footing_of((2000, 3, 32, 32)), footing_of((60, 3, 128, 128))
    assert sized_split(2000, footing_of((2000, 28, 28)), 0.2, EFFORTS["quick"])[1] == 400
    trained, scored = sized_split(2000, small, 0.2, EFFORTS["quick"])
    assert 100 <= scored < 400
    found = diffusion_training(small, trained, scored, EFFORTS["quick"])
    assert (found.has_levels, found.batch_size, found.patch) == (True, 16, 2)
    assert not diffusion_training(large, 200, 100, EFFORTS["quick"]).has_levels


def test_pixels_have_one_more_row_in_every_model():
    auto = entrants(footing_of((500, 4, 4), 256), 400, 0, EFFORTS["quick"], 0)
    assert auto["Gaussian"].model.prior.scale == "pooled"
    assert auto["factor analysis"].model.noise_floor == 1 / 401
    assert (auto["VAE"].scaling, auto["VAE"].likelihood.variance) == ("pooled", "point")
    table = entrants(footing_of((500, 16), 256), 400, 0, EFFORTS["quick"], 0)
    assert table["factor analysis"].model.noise_floor == 0
    assert (table["VAE"].scaling, table["VAE"].likelihood) == (None, "auto")
