"""Recipes build modules of the shapes asked for, store only their arguments, and say what is wrong with them."""

import math

import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from torch import nn

from jensen.files.records import decode, encode, place
from jensen.nets.conv import ConvDecoder, ConvEncoder
from jensen.nets.mlp import MLP
from jensen.nets.recipe import Recipe

ACTIVATIONS = ["tanh", "relu", "gelu", "silu", "softplus", "elu"]
SIZES = [(28, 28), (8, 8), (20, 28), (7, 5), (1, 1)]
# (recipe, in_shape, out_shape)
CASES = {
    "linear": (MLP(hidden=()), (3,), (2,)),
    "mlp": (MLP(hidden=(7, 5)), (3,), (2,)),
    "mlp on images": (MLP(hidden=(7,)), (2, 4, 3), (1, 5, 2)),
    "encoder": (ConvEncoder(channels=(4, 6), dense=8), (2, 7, 5), (3,)),
    "encoder without stages": (ConvEncoder(channels=(), dense=8), (2, 7, 5), (3,)),
    "encoder of a matrix": (ConvEncoder(channels=(4,), dense=8), (1, 4, 4), (3, 2)),
    "decoder": (ConvDecoder(channels=(6, 4), dense=8), (3,), (2, 7, 5)),
    "decoder without stages": (ConvDecoder(channels=(), dense=8), (3,), (2, 7, 5)),
    "decoder of a matrix": (ConvDecoder(channels=(4,), dense=8), (3, 2), (1, 4, 4)),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_a_module_has_the_shapes_asked_for(case):
    recipe, in_shape, out_shape = case
    module = recipe.build(in_shape, out_shape)
    for n_rows in (0, 1, 4):
        assert module(torch.randn(n_rows, *in_shape)).shape == (n_rows, *out_shape)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("n_stages", [1, 2, 3])
def test_images_of_any_size(size, n_stages):
    channels = (4,) * n_stages
    images = ConvDecoder(channels, dense=8).build((3,), (2, *size))(torch.randn(5, 3))
    assert images.shape == (5, 2, *size)
    assert ConvEncoder(channels, dense=8).build((2, *size), (3,))(images).shape == (5, 3)


def test_every_parameter_has_a_gradient(case):
    recipe, in_shape, out_shape = case
    module = clone(recipe).set_params(activation="tanh").build(in_shape, out_shape)
    module(torch.randn(6, *in_shape)).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name  # noqa: PT018


def test_the_same_seed_gives_the_same_network(case):
    recipe, in_shape, out_shape = case
    x = torch.randn(4, *in_shape)
    answers = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        answers.append(recipe.build(in_shape, out_shape)(x))
    assert answers[0].equal(answers[1])
    assert not answers[0].equal(answers[2])


def test_a_clone_has_the_arguments_and_a_file_keeps_them(case):
    recipe = case[0]
    copy = clone(recipe)
    assert copy is not recipe
    assert copy.get_params() == recipe.get_params()
    tensors = {}
    saved = decode(place(encode(recipe, tensors, "net"), tensors), {type(recipe).__name__: type(recipe)})
    assert saved.get_params() == recipe.get_params()


def test_arguments_can_be_searched_over():
    assert MLP().get_params() == {"hidden": (200, 200), "activation": "tanh", "dropout": 0.0}
    expected = {"channels": (32, 64), "dense": 256, "activation": "relu", "dropout": 0.0}
    assert ConvEncoder().get_params() == expected
    assert MLP().set_params(hidden=(3,)).hidden == (3,)


def test_without_hidden_layers_the_map_is_affine():
    module = MLP(hidden=()).build((3,), (2,)).double()
    x, y = torch.randn(2, 5, 3).double()
    assert_allclose(module(0.3 * x + 0.7 * y).detach(), (0.3 * module(x) + 0.7 * module(y)).detach())


def test_a_table_costs_linear_layers_and_activations_only():
    layers = [type(layer) for layer in MLP(hidden=(4, 4)).build((3,), (2,))]
    assert layers == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_and_their_starts(activation):
    first, nonlinearity, last = MLP(hidden=(300,), activation=activation).build((200,), (100,))
    x = torch.linspace(-2, 2, 9)
    assert_allclose(nonlinearity(x), getattr(nn.functional, activation, getattr(torch, activation, None))(x))
    gain = {"tanh": 5 / 3, "relu": math.sqrt(2), "gelu": math.sqrt(2), "silu": math.sqrt(2)}.get(activation, 1.0)
    # Uniform: of 20 000 weights the largest is within a per cent of the limit.
    assert_allclose(first.weight.abs().max().item(), gain * math.sqrt(6 / 500), rtol=1e-2)
    assert_allclose(last.weight.abs().max().item(), math.sqrt(6 / 400), rtol=1e-2)
    assert first.bias.abs().sum() == last.bias.abs().sum() == 0


@pytest.mark.parametrize(
    ("recipe", "shape"), [(MLP(hidden=(50,), dropout=0.5), (3,)), (ConvEncoder(dropout=0.5), (1, 8, 8))]
)
def test_dropout_acts_in_training_only(recipe, shape):
    module = recipe.build(shape, (2,))
    x = torch.randn(4, *shape)
    assert not module(x).equal(module(x))
    module.eval()
    assert module(x).equal(module(x))


@pytest.mark.parametrize(
    ("recipe", "shapes", "message"),
    [
        (MLP(hidden=(0,)), ((3,), (2,)), r"hidden=\(0,\) are not layer sizes; give a tuple of positive integers"),
        (MLP(hidden=200), ((3,), (2,)), r"hidden=200 are not layer sizes"),
        (MLP(hidden=(2.5,)), ((3,), (2,)), r"hidden=\(2.5,\) are not layer sizes"),
        (MLP(activation="sine"), ((3,), (2,)), r"activation='sine' is not known; choose one of 'tanh', 'relu'"),
        (MLP(hidden=(), activation=None), ((3,), (2,)), r"activation=None is not known"),
        (
            MLP(dropout=1.5),
            ((3,), (2,)),
            r"dropout=1.5 is not a fraction of the units; give a number from 0 to below 1",
        ),
        (MLP(dropout="half"), ((3,), (2,)), r"dropout='half' is not a fraction"),
        (MLP(), ((), (2,)), r"in_shape=\(\) is not the shape of a row; give positive integers"),
        (MLP(), ((3,), (0,)), r"out_shape=\(0,\) is not the shape of a row"),
        (ConvEncoder(), ((784,), (2,)), r"in_shape=\(784,\) is not an image \(channels, height, width\); use MLP for"),
        (ConvDecoder(), ((2,), (28, 28)), r"out_shape=\(28, 28\) is not an image .* use MLP for tables"),
        (ConvEncoder(channels=(-1,)), ((1, 8, 8), (2,)), r"channels=\(-1,\) are not layer sizes"),
        (ConvDecoder(dense=0), ((2,), (1, 8, 8)), r"dense=0 is not a layer size; give a positive integer"),
        (ConvEncoder(dense=None), ((1, 8, 8), (2,)), r"dense=None is not a layer size"),
        (ConvDecoder(activation="sine"), ((2,), (1, 8, 8)), r"activation='sine' is not known"),
    ],
    ids=lambda value: str(value),
)
def test_errors_name_the_argument_and_the_way_out(recipe, shapes, message):
    with pytest.raises(ValueError, match=message):
        recipe.build(*shapes)


def test_a_recipe_of_ones_own_needs_build():
    class Empty(Recipe):
        pass

    with pytest.raises(TypeError, match=r"abstract method '?build'?"):
        Empty()
