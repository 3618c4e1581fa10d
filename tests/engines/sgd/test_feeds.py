"""Rows by number, from wherever they are."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from jensen import Trainer
from jensen.data.container import read_items
from jensen.engines.sgd.feeds import ReadFeed, TensorFeed
from jensen.engines.sgd.loop import Plan, fit_sgd

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)).astype(np.float32)
Y = torch.from_numpy(X @ RNG.normal(size=5).astype(np.float32) + 1)


class Items(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.from_numpy(X[i]), "what else an item has"


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(5, 1)

    def forward(self, x, y):
        return {"fit": -0.5 * (y - self.line(x)[:, 0]).square()}


def trained(feed):
    module = Line()
    trainer = Trainer(warm_up=0, averaging=None)
    fit_sgd(module, feed, lambda terms, done: terms["fit"], Plan(5, 32, 0.01, trainer, seed=0))
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.fixture(params=["memory map", "dataset"])
def read(request, tmp_path):
    if request.param == "dataset":
        return lambda numbers: torch.from_numpy(read_items(Items(), numbers))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    return lambda numbers: torch.from_numpy(mapped[numbers])


@pytest.mark.parametrize("weight", [None, torch.linspace(0.5, 1.5, N)], ids=["equal", "weighted"])
def test_rows_on_disk_train_to_the_same_weights_as_rows_in_memory(read, weight):
    in_memory = trained(TensorFeed((torch.from_numpy(X), Y), weight))
    on_disk = trained(ReadFeed(read, np.arange(N), (Y,), weight))
    # The rows of a batch are added up in another order.
    torch.testing.assert_close(on_disk, in_memory, rtol=1e-5, atol=1e-6)


def test_a_batch_from_disk_comes_in_the_order_of_the_file_with_what_belongs_to_it(read):
    even = np.arange(0, N, 2)
    feed = ReadFeed(read, even, (Y[::2], None), torch.arange(100.0))
    batch = feed.take(torch.tensor([7, 3, 50]))
    assert len(feed) == 100
    np.testing.assert_array_equal(batch.inputs[0], X[[6, 14, 100]])
    assert torch.equal(batch.inputs[1], Y[[6, 14, 100]])
    assert batch.inputs[2] is None
    assert batch.weight.tolist() == [3, 7, 50]


def test_a_part_of_rows_in_memory_is_taken_by_their_numbers():
    feed = TensorFeed((torch.from_numpy(X), Y), torch.arange(float(N)), torch.arange(0, N, 2))
    batch = feed.take(torch.tensor([7, 3, 50]))
    assert len(feed) == len(range(0, N, 2))
    np.testing.assert_array_equal(batch.inputs[0], X[[14, 6, 100]])
    assert torch.equal(batch.inputs[1], Y[[14, 6, 100]])
    assert batch.weight.tolist() == [14, 6, 100]


def test_a_batch_from_memory_comes_in_the_order_asked():
    feed = TensorFeed((None, torch.from_numpy(X)), torch.arange(float(N)))
    batch = feed.take(torch.tensor([7, 3, 50]))
    assert len(feed) == N
    np.testing.assert_array_equal(batch.inputs[1], X[[7, 3, 50]])
    assert batch.inputs[0] is None
    assert batch.weight.tolist() == [7, 3, 50]
