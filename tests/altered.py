"""Files that were altered after they were saved: by hand, or many at random."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from jensen.files.records import checksum

__all__ = ["KINDS", "altered", "contents", "rewrite"]

# Values that a file never holds where they are put: of other types, and far too many.
VALUES: tuple[Any, ...] = (
    -1, 0, 1, 2, 7, 10**8, 10**9, 10**30, 0.5, -0.5, 1e300, True, False, None, "", "kmeans", "x" * 300, [], {}, [[]],
    {"float": "nan"}, {"float": "inf"}, {"list": []}, {"tuple": [10**9]}, {"dict": {}}, {"tuple": [1, "a"]},
    {"strings": ["a"], "dtype": "U"}, {"recipe": "MLP", "params": {}}, {"recipe": "Popen", "params": {}},
)  # fmt: skip


def contents(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Metadata and tensors."""
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def rewrite(
    path: Path,
    change_content: Callable[[Any], Any] | None = None,
    change_tensors: Callable[[Any], Any] | None = None,
    metadata: dict[str, str] | None = None,
    *,
    describes: bool = True,
) -> None:
    """Alter a file and give it the sum that it would have been saved with; `describes` the new tensors, too."""
    meta, tensors = contents(path)
    content = json.loads(meta["content"])
    if change_content:
        change_content(content)
        named = {holder[key] for holder, key in places(content) if key == "array"}
        tensors = {name: tensor for name, tensor in tensors.items() if name in named}
    if change_tensors:
        change_tensors(tensors)
        if describes:
            describe(content, tensors)
    meta |= {"content": json.dumps(content)} | (metadata or {})
    save_file(tensors, path, metadata=meta | {"sha256": checksum(meta, tensors)})


def describe(value: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Types and shapes of the tensors, where a description names them."""
    for holder, key in places(value):
        item = holder[key]
        if isinstance(item, dict) and "array" in item and item["array"] in tensors:
            tensor = tensors[item["array"]]
            item |= {"type": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON: what holds it, and its key or number."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def flip_bits(raw: bytes, rng: random.Random) -> bytes:
    found = bytearray(raw)
    n_header = int.from_bytes(raw[:8], "little")
    # Half in the header, which is small beside the tensors of a network.
    within = 8 + n_header if rng.random() < 0.5 else len(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        found[rng.randrange(within)] ^= 1 << rng.randrange(8)
    return bytes(found)


def truncate(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return raw + rng.randbytes(rng.randrange(1, 100))
    return raw[: rng.choice((rng.randrange(16), rng.randrange(len(raw)), len(raw) - rng.randrange(1, 9)))]


def header_size(raw: bytes, rng: random.Random) -> bytes:
    n = int.from_bytes(raw[:8], "little")
    other = rng.choice(
        (0, 1, n - rng.randrange(1, 9), n + rng.randrange(1, 9), rng.getrandbits(32), rng.getrandbits(64))
    )
    return max(other, 0).to_bytes(8, "little") + raw[8:]


def change_value(content: Any, tensors: Any, rng: random.Random) -> None:
    holder, key = rng.choice(list(places(content)))
    old = holder[key]
    if isinstance(old, (int, float)) and not isinstance(old, bool) and rng.random() < 0.5:
        holder[key] = rng.choice((old + 1, old - 1, -old, old * 10**6, float(old), 10**9))
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))


def change_keys(content: Any, tensors: Any, rng: random.Random) -> None:
    holder, key = rng.choice([place for place in places(content) if isinstance(place[0], dict)])
    what = rng.randrange(4)
    if what == 0:
        del holder[key]
    elif what == 1:
        holder[rng.choice(("theta_", "n_features_in_", "colour", "", "__class__", "array", "dict"))] = holder[key]
    elif what == 2:
        holder[key + "_"] = holder.pop(key)
    else:
        other_holder, other = rng.choice(list(places(content)))
        other_value = copy.deepcopy(other_holder[other])
        other_holder[other] = copy.deepcopy(holder[key])
        holder[key] = other_value


def nest(content: Any, tensors: Any, rng: random.Random) -> None:
    holder, key = rng.choice(list(places(content)))
    for _ in range(rng.choice((1, 3, 40, 300))):
        holder[key] = {rng.choice(("list", "tuple")): [holder[key]]}


def change_tensor(content: Any, tensors: Any, rng: random.Random) -> None:
    name, other = rng.choice(sorted(tensors)), rng.choice(sorted(tensors))
    tensor, what = tensors[name], rng.randrange(7)
    if what == 0:
        tensors[name], tensors[other] = tensors[other], tensor
    elif what == 1:
        tensors[name] = tensor[: len(tensor) // 2].clone() if tensor.ndim else tensor[None].repeat(3)
    elif what == 2:
        tensors[name] = torch.cat([tensor, tensor]) if tensor.ndim else tensor.reshape(1)
    elif what == 3:
        types = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16, torch.bfloat16)
        tensors[name] = tensor.to(rng.choice(types))
    elif what == 4:
        values = tensor.clone().reshape(-1)
        values[rng.randrange(len(values))] = rng.choice((0, 1, 3, 200) if not tensor.is_floating_point() else (
            float("nan"), float("inf"), -1.0, 0.0, 1e30))  # fmt: skip
        tensors[name] = values.reshape(tensor.shape)
    elif what == 5:
        tensors[name] = tensor.flatten() if rng.random() < 0.5 else tensor[None]
    elif rng.random() < 0.5:
        tensors["more"] = tensor
    else:
        del tensors[name]


def double_key(text: str, rng: random.Random) -> str:
    """A key of the JSON text a second time, with another value."""
    at = rng.choice([i for i, character in enumerate(text) if character == "{"])
    end = text.find(":", at)
    return (
        text
        if end < 0 or text[at + 1] != '"'
        else f"{text[: at + 1]}{text[at + 1 : end]}: {rng.randrange(9)}, {text[at + 1 :]}"
    )


RAW = {"bits": flip_bits, "length": truncate, "header": header_size}
INSIDE = {"values": change_value, "keys": change_keys, "nesting": nest, "tensors": change_tensor}
KINDS = (*RAW, *INSIDE, "twice")


def altered(raw: bytes, path: Path, kind: str, rng: random.Random) -> bool:
    """Write an altered copy of a file to `path`; True says that its sum was computed anew, so that it is in order."""
    if kind in RAW:
        path.write_bytes(RAW[kind](raw, rng))
        return False
    path.write_bytes(raw)
    meta, tensors = contents(path)
    is_signed, text = rng.random() < 0.5, meta["content"]
    if kind == "twice":
        text = double_key(text, rng)
    else:
        content = json.loads(text)
        INSIDE[kind](content, tensors, rng)
        if kind == "tensors" and rng.random() < 0.5:
            describe(content, tensors)
        text = json.dumps(content)
    meta["content"] = text
    if is_signed:
        meta["sha256"] = checksum(meta, tensors)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, path, metadata=meta)
    return is_signed
