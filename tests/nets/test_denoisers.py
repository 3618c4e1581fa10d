"""Denoisers keep the shapes, start at 0, listen to time and class, and the U-Net is the one everybody means."""

import math
import re

import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from torch import nn

from jensen.files.records import decode, encode, place
from jensen.nets.conv import ConvEncoder
from jensen.nets.denoiser import Denoiser, TimeEmbedding, build_denoiser, sinusoids
from jensen.nets.mlp import MLP, ResidualMLP
from jensen.nets.recipe import Recipe
from jensen.nets.unet import UNet, group_count

N_CLASSES = 3
# (recipe, in_shape, out_shape)
CASES = {
    "table": (ResidualMLP(width=16, n_blocks=2), (5,), (5,)),
    "table to another size": (ResidualMLP(width=7, n_blocks=1), (5,), (4,)),
    "flattened images": (ResidualMLP(width=16, n_blocks=2), (2, 4, 3), (2, 4, 3)),
    "unet": (UNet(channels=(8, 16), n_blocks=1, dropout=0.0), (1, 8, 8), (1, 8, 8)),
    "unet of colours": (UNet(channels=(8, 8, 16), n_blocks=2, dropout=0.0), (3, 7, 5), (3, 7, 5)),
    "unet to more channels": (UNet(channels=(8,), n_blocks=1, dropout=0.0), (3, 6, 6), (6, 6, 6)),
    "unet of prime channels": (UNet(channels=(5, 7), n_blocks=1, attention=(1,), dropout=0.0), (2, 4, 6), (2, 4, 6)),
    "unet with attention": (UNet(channels=(8, 16), n_blocks=1, attention=(0, 1), dropout=0.0), (1, 6, 6), (1, 6, 6)),
    "unet without extras": (
        UNet(channels=(8, 16), n_blocks=1, middle_attention=False, position_map=False, dropout=0.0),
        (1, 6, 6),
        (1, 6, 6),
    ),
}
# What knows no time: the time is put beside the row.
PLAIN = {
    "plain table": (MLP(hidden=(16,)), (5,), (5,)),
    "plain images": (MLP(hidden=(16,)), (2, 4, 3), (2, 4, 3)),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(params=CASES | PLAIN)
def any_case(request):
    return (CASES | PLAIN)[request.param]


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def built(recipe, in_shape, out_shape, n_classes=N_CLASSES):
    """A network away from its start, where its last layer and its classes are 0."""
    network = build_denoiser(recipe, in_shape, out_shape, n_classes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network


def rows(in_shape, n_rows=5):
    return torch.randn(n_rows, *in_shape), 999 * torch.rand(n_rows), torch.randint(N_CLASSES + 1, (n_rows,))


def test_a_denoiser_has_the_shapes_asked_for(any_case):
    recipe, in_shape, out_shape = any_case
    for n_classes in (0, N_CLASSES):
        network = build_denoiser(recipe, in_shape, out_shape, n_classes)
        assert network.training
        for n_rows in (0, 1, 4):
            x, t, y = rows(in_shape, n_rows)
            assert network(x, t).shape == network(x, t, y).shape == (n_rows, *out_shape)


@pytest.mark.parametrize("size", [(28, 28), (8, 8), (7, 5), (1, 9), (2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("channels", [(4,), (4, 6), (3, 5, 7), (13, 2, 4)], ids=str)
def test_images_of_any_size(size, channels):
    x, t, _ = rows((2, *size))
    network = UNet(channels, n_blocks=1).build((2, *size), (2, *size))
    assert network(x, t).shape == x.shape


@pytest.mark.parametrize("size", [(28, 28), (7, 5), (2, 3)], ids=str)
def test_a_unet_of_patches_is_one_of_the_points_that_hold_them(size):
    """What a patch of an even image holds is in the channels of one point, and nothing of it is lost."""
    x, t, _ = rows((2, *size))
    network = built(UNet((8, 12), dropout=0.0, patch=2, position_map=False), (2, *size), (3, *size), 0)
    assert network(x, t).shape == (5, 3, *size)
    inner = [-(-side // 2) for side in size]
    whole = built(UNet((8, 12), dropout=0.0, position_map=False), (8, *inner), (12, *inner), 0)
    whole.load_state_dict(network.state_dict())
    if all(side % 2 == 0 for side in size):
        points = whole(nn.functional.pixel_unshuffle(x, 2), t)
        assert_allclose(network(x, t).detach(), nn.functional.pixel_shuffle(points, 2).detach(), atol=1e-6)


@pytest.mark.parametrize("patch", [0, 9, 1.5, True])
def test_patches_are_squares_within_the_image(patch):
    with pytest.raises(ValueError, match=rf"patch={patch!r} is not the side of a square within images of 8x6 pixels"):
        UNet(patch=patch).build((1, 8, 6), (1, 8, 6))


def test_all_images_within_a_unet_have_their_channels_last():
    """A layer that leaves this format would make every convolution after it copy its input."""
    network = built(UNet((8, 16), attention=(1,)), (3, 9, 8), (3, 9, 8)).train()
    seen = []
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.GroupNorm)):
            layer.register_forward_hook(lambda layer, _, out: seen.append((layer, out)))
    network(*rows((3, 9, 8)))
    inner = [out for layer, out in seen if layer is not network.conv_in]
    assert len(inner) > 20
    assert all(out.is_contiguous(memory_format=torch.channels_last) for out in inner)


def test_an_untrained_denoiser_answers_zero(case):
    recipe, in_shape, out_shape = case
    assert recipe.build(in_shape, out_shape, N_CLASSES)(*rows(in_shape)).abs().max() == 0


def test_rows_do_not_see_each_other(any_case):
    recipe, in_shape, out_shape = any_case
    network = built(recipe, in_shape, out_shape).double()
    x, t, y = rows(in_shape)
    x = x.double()
    apart = [network(x[i : i + 1], t[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    assert_allclose(network(x, t, y).detach(), torch.cat(apart).detach(), atol=1e-10)


def test_time_and_class_change_the_answer(any_case):
    recipe, in_shape, out_shape = any_case
    network = built(recipe, in_shape, out_shape)
    x = torch.randn(1, *in_shape)
    answers = [
        network(x, torch.tensor([t]), torch.tensor([y])) for t, y in [(10.0, 0), (10.5, 0), (990.0, 0), (10.0, 1)]
    ]
    for i, one in enumerate(answers):
        for other in answers[:i]:
            assert not torch.allclose(one, other, atol=1e-6)


def test_no_class_is_the_class_after_the_last(any_case):
    recipe, in_shape, out_shape = any_case
    network = built(recipe, in_shape, out_shape)
    x, t, y = rows(in_shape)
    assert network(x, t).equal(network(x, t, torch.full_like(y, N_CLASSES)))
    assert not network(x, t).equal(network(x, t, torch.zeros_like(y)))


def test_without_classes_a_class_is_ignored(any_case):
    recipe, in_shape, out_shape = any_case
    network = built(recipe, in_shape, out_shape, n_classes=0)
    x, t, y = rows(in_shape)
    assert network(x, t, y).equal(network(x, t))


def test_every_parameter_has_a_gradient(any_case):
    recipe, in_shape, out_shape = any_case
    network = built(recipe, in_shape, out_shape)
    x, t, _ = rows(in_shape, 8)
    network(x, t, torch.arange(8) % (N_CLASSES + 1)).square().sum().backward()
    for name, parameter in network.named_parameters():
        if not name.endswith("to_k.bias"):  # it adds the same to every weight's logarithm, and so nothing
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name  # noqa: PT018


def test_training_moves_the_answer_away_from_zero(case):
    recipe, in_shape, out_shape = case
    network = recipe.build(in_shape, out_shape, N_CLASSES)
    x, t, y = rows(in_shape)
    target = torch.randn(len(x), *out_shape)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        loss = (network(x, t, y) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if losses[-1] < 0.5 * losses[0]:
            break
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("recipe", "shape"),
    [(ResidualMLP(width=8, dropout=0.5), (3,)), (UNet(channels=(8,), dropout=0.5), (1, 4, 4))],
    ids=["table", "image"],
)
def test_dropout_acts_in_training_only(recipe, shape):
    network = built(recipe, shape, shape)
    inputs = rows(shape)
    assert not network(*inputs).equal(network(*inputs))
    network.eval()
    assert network(*inputs).equal(network(*inputs))


def test_the_same_seed_gives_the_same_network(case):
    recipe, in_shape, out_shape = case
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(nn.utils.parameters_to_vector(recipe.build(in_shape, out_shape).parameters()))
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_a_clone_has_the_arguments_and_a_file_keeps_them(case):
    recipe = case[0]
    copy = clone(recipe)
    assert copy is not recipe
    assert copy.get_params() == recipe.get_params()
    tensors = {}
    saved = decode(place(encode(recipe, tensors, "net"), tensors), {type(recipe).__name__: type(recipe)})
    assert saved.get_params() == recipe.get_params()


def test_arguments_can_be_searched_over():
    assert ResidualMLP().get_params() == {"width": 256, "n_blocks": 3, "dropout": 0.0}
    assert UNet().set_params(attention=(1,)).get_params() == {
        "channels": (32, 64),
        "n_blocks": 1,
        "attention": (1,),
        "middle_attention": True,
        "dropout": 0.1,
        "position_map": True,
        "patch": 1,
    }


def test_waves_are_cosines_and_then_sines_of_falling_frequency():
    waves = sinusoids(torch.tensor([0.0, 2.5, 700.0], dtype=torch.float64), 6)
    for row, t in zip(waves, [0.0, 2.5, 700.0], strict=True):
        angles = [t * 10_000 ** (-i / 3) for i in range(3)]
        # The frequencies are single precision, and the largest angle 700.
        assert_allclose(row, [*map(math.cos, angles), *map(math.sin, angles)], atol=1e-4)


def test_classes_start_alike_and_whole_times_are_numbers_too():
    embed = TimeEmbedding(5, 8, N_CLASSES)
    y = torch.arange(N_CLASSES + 1)
    one, *others = embed(torch.full_like(y, 40), y).detach()
    for other in [*others, embed(torch.tensor([40.0])).detach()[0]]:
        assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize(
    ("channels", "n_groups"),
    [
        ((32, 64), 8),
        ((128, 256), 32),
        ((512,), 32),
        ((5, 7), 1),
        ((3,), 1),
        ((8, 12), 2),
        ((48, 72), 12),
        ((24, 64), 4),
    ],
    ids=str,
)
def test_groups_divide_all_channels_and_have_four_or_more(channels, n_groups):
    assert group_count(list(channels)) == n_groups


def test_the_position_map_starts_at_zero_and_then_tells_places_apart():
    shape = (1, 6, 5)
    recipe = UNet(channels=(8, 16), dropout=0.0)
    network = recipe.build(shape, shape)
    nn.init.normal_(network.conv_out.weight)
    without = clone(recipe).set_params(position_map=False).build(shape, shape)
    weights = network.state_dict()
    assert weights.pop("position_map").shape == (8, 6, 5)
    without.load_state_dict(weights)
    x, t, _ = rows(shape)
    assert network(x, t).equal(without(x, t))
    nn.init.normal_(network.position_map)
    assert not torch.allclose(network(x, t), without(x, t), atol=1e-2)


def test_a_plain_recipe_gets_row_time_and_class_side_by_side():
    class Echo(Recipe):
        def build(self, in_shape, out_shape):
            self.in_shape_ = in_shape
            return nn.Linear(*in_shape, *out_shape)

    echo = Echo()
    network = build_denoiser(echo, (3,), (2,), N_CLASSES)
    assert echo.in_shape_ == (3 + 32 + N_CLASSES + 1,)
    x, t, _ = rows((3,), 2)
    expected = torch.cat([x, sinusoids(t, 32), torch.tensor([[0, 1.0, 0, 0], [0, 0, 0, 1.0]])], 1)
    assert network(x, t, torch.tensor([1, 3])).equal(network.network(expected))


class Wrong(Denoiser):
    def __init__(self, answer=None):
        self.answer = answer

    def build(self, in_shape, out_shape, n_classes=0):
        return self.answer


class FirstColumns(nn.Module):
    def forward(self, x, t, y=None):
        return x[:, :2]


@pytest.mark.parametrize(
    ("recipe", "shape", "message"),
    [
        (
            nn.Linear(3, 3),
            (3,),
            r"network=Linear\(.*\) is not a recipe; give UNet\(\) for images, ResidualMLP\(\) for t",
        ),
        (Wrong(), (3,), r"network=Wrong\(\) builds a NoneType; return a torch.nn.Module"),
        (
            Wrong(FirstColumns()),
            (3,),
            r"network=Wrong\(.*\) returns \(2,\) for a row of shape \(3,\); .* must return \(3,\)",
        ),
        (MLP(hidden=(0,)), (3,), r"^hidden=\(0,\) are not layer sizes"),
        (
            ConvEncoder(),
            (1, 8, 8),
            r"network=ConvEncoder\(\) is not a Denoiser, .* use UNet\(\), or your own Denoiser",
        ),
        (MLP(), (), r"in_shape=\(\) is not the shape of a row"),
        (ResidualMLP(width=0), (3,), r"width=0 is not a layer size; give a positive integer"),
        (ResidualMLP(n_blocks=1.5), (3,), r"n_blocks=1.5 is not a number of residual blocks"),
        (ResidualMLP(dropout=1), (3,), r"dropout=1 is not a fraction of the units"),
        (UNet(), (784,), r"in_shape=\(784,\) is not an image \(channels, height, width\); use MLP for tables"),
        (UNet(channels=()), (1, 8, 8), r"channels=\(\) has no stage; give one number or more, such as \(32, 64\)"),
        (UNet(channels=(8, 0)), (1, 8, 8), r"channels=\(8, 0\) are not layer sizes"),
        (UNet(n_blocks=0), (1, 8, 8), r"n_blocks=0 is not a number of residual blocks; give a positive integer"),
        (
            UNet(attention=(2,)),
            (1, 8, 8),
            r"attention=\(2,\) are not stage numbers; give some of 0..1, or \(\) for n",
        ),
        (UNet(attention=True), (1, 8, 8), r"attention=True are not stage numbers"),
        (UNet(dropout=-0.1), (1, 8, 8), r"dropout=-0.1 is not a fraction of the units"),
    ],
    ids=lambda value: str(value),
)
def test_errors_name_the_argument_and_the_way_out(recipe, shape, message):
    with pytest.raises(ValueError, match=message):
        build_denoiser(recipe, shape, shape)


def test_a_unet_keeps_height_and_width():
    with pytest.raises(
        ValueError, match=r"out_shape=\(1, 4, 4\) has another height or width than in_shape=\(1, 8, 8\)"
    ):
        UNet().build((1, 8, 8), (1, 4, 4))


def test_a_denoiser_of_ones_own_needs_build():
    class Empty(Denoiser):
        pass

    with pytest.raises(TypeError, match=r"abstract method '?build'?"):
        Empty()


# Which stages attend, and whether there are classes.
@pytest.mark.parametrize(("attention", "n_classes"), [((), 0), ((1,), 0), ((0, 1), N_CLASSES)], ids=str)
def test_the_unet_is_that_of_diffusers(attention, n_classes):
    diffusers = pytest.importorskip("diffusers")
    down = ["AttnDownBlock2D" if i in attention else "DownBlock2D" for i in range(2)]
    theirs = diffusers.UNet2DModel(
        sample_size=16,
        in_channels=1,
        out_channels=1,
        block_out_channels=(32, 64),
        layers_per_block=2,
        down_block_types=tuple(down),
        up_block_types=tuple(name.replace("Down", "Up") for name in reversed(down)),
        norm_num_groups=group_count([32, 64]),
        num_class_embeds=n_classes + 1 if n_classes else None,
    )
    ours = UNet(n_blocks=2, attention=attention, dropout=0.0, position_map=False).build(
        (1, 16, 16), (1, 16, 16), n_classes
    )
    weights = theirs.state_dict()
    # Strict: every parameter of one is a parameter of the other.
    ours.load_state_dict({our_name(name): value for name, value in weights.items()})
    x, t, y = rows((1, 16, 16), 4)
    labels = {"class_labels": y} if n_classes else {}
    with torch.no_grad():
        expected = theirs.eval()(x, t, **labels).sample
        assert expected.std() > 1e-2
        assert_allclose(ours(x, t, y), expected, atol=1e-4)


def our_name(name):
    name = re.sub(r"(down|up)samplers\.0\.conv", "resample", name).replace("to_out.0", "to_out")
    return name.replace("class_embedding", "time_embedding.class_embedding")
