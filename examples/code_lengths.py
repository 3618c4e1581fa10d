"""Entropy is the length of the best code, and KL the extra cost of a code for other frequencies.

    python examples/code_lengths.py [picture.png]
In a prefix code no word is the beginning of another. A prefix code with l(x) bits for symbol x exists if and only if
Σ 2^-l(x) ≤ 1 (Kraft). If the sum is 1, Q = 2^-l is a distribution, and the mean length is the cross-entropy
    H(P, Q) = -Σ P log₂ Q = H(P) + KL(P ‖ Q).
32 equally frequent symbols need 5 bits each. Huffman's code (1952) is the best code with whole bits: its mean length is
within one bit of H(P), and within 1/n bit if n symbols are coded at a time. Among all densities with a given variance,
the Gaussian has the largest entropy, ½ ln(2πeσ²); the entropy of any other density p is lower by KL(p ‖ N). Cover &
Thomas (2006), chapters 2, 5 and 8.
"""

from __future__ import annotations

import heapq
from itertools import product

import numpy as np
from scipy import stats

import jensen
from drawing import COLOURS, GREY, INK, figure, picture_path, save, title

PICTURE = picture_path(__doc__)
K, N_MESSAGE, PALE = 32, 20_000, "#D9E6F0"


def huffman(p: np.ndarray) -> list[str]:
    """Code words: one bit separates the two least frequent groups, which are then merged."""
    heap, words = [(share, i, [i]) for i, share in enumerate(p)], [""] * len(p)
    heapq.heapify(heap)
    while len(heap) > 1:
        pair = heapq.heappop(heap), heapq.heappop(heap)
        for bit, (_, _, members) in zip("01", pair, strict=True):
            for i in members:
                words[i] = bit + words[i]
        heapq.heappush(heap, (pair[0][0] + pair[1][0], pair[0][1], pair[0][2] + pair[1][2]))
    return words


uniform, zipf = np.full(K, 1 / K), 1 / np.arange(1, K + 1)
# Zipf's law: the r-th symbol is 1/r as frequent as the first.
zipf /= zipf.sum()
H = jensen.entropy(zipf, unit="bits")
words = huffman(zipf)
lengths = np.array([len(word) for word in words])
assert jensen.entropy(uniform, unit="bits") == 5
assert {len(word) for word in huffman(uniform)} == {5}, "32 symbols, 5 bits"
assert np.sum(2.0**-lengths) == 1, "Kraft's sum, of powers of 2 without rounding: a distribution"

message = np.random.default_rng(0).choice(K, N_MESSAGE, p=zipf)
bits = "".join(words[symbol] for symbol in message)
known, read, word = {word: i for i, word in enumerate(words)}, [], ""
for bit in bits:
    word += bit
    if word in known:
        read.append(known[word])
        word = ""
assert read == message.tolist(), "a prefix code can be decoded"
spread = np.sqrt(zipf @ lengths**2 - (zipf @ lengths) ** 2) / np.sqrt(N_MESSAGE)
assert abs(len(bits) / N_MESSAGE - zipf @ lengths) < 4 * spread, "the mean length, within 4 standard errors"

codes = {"ideal": zipf, "Huffman's": 2.0**-lengths, "5 bits each": uniform, "reversed": np.sort(zipf)}
cost = {name: jensen.cross_entropy(zipf, q, unit="bits") for name, q in codes.items()}
price = {name: jensen.kl(zipf, q, unit="bits") for name, q in codes.items()}
print(f"Zipf's law on {K} symbols: H = {H:.4f} bits; a message took {len(bits) / N_MESSAGE:.4f} per symbol")
for name, q in codes.items():
    print(f"  code {name:12s} {cost[name]:.4f} bits = H + {price[name]:.4f}")
    # Tolerances are for rounding where no other reason is given.
    assert abs(price[name] - np.sum(zipf * np.log2(zipf / q))) < 1e-12
assert abs(cost["Huffman's"] - zipf @ lengths) < 1e-12, "the mean length is a cross-entropy"
assert H <= cost["Huffman's"] < H + 1
assert abs(cost["5 bits each"] - 5) < 1e-12

coin = (0.9, 0.1)
H_coin, blocks = jensen.entropy(coin, unit="bits"), {}
for n in range(1, 9):
    together = np.prod(list(product(coin, repeat=n)), axis=1)
    blocks[n] = together @ [len(word) for word in huffman(together)] / n
    assert H_coin <= blocks[n] < H_coin + 1 / n

# Densities of variance 1 on a grid of step 0.0005; the uniform one has jumps, so the tolerance is 1e-3.
x, step = np.linspace(-30, 30, 120_001, retstep=True)
gaussian = stats.norm.pdf(x)
densities = {
    "Gaussian": gaussian,
    "logistic": stats.logistic.pdf(x, scale=3**0.5 / np.pi),
    "Laplace": stats.laplace.pdf(x, scale=0.5**0.5),
    "uniform": stats.uniform.pdf(x, -(3**0.5), 12**0.5),
    "two peaks": 0.5 * (stats.norm.pdf(x, -0.9, 0.19**0.5) + stats.norm.pdf(x, 0.9, 0.19**0.5)),
}
nats = {name: jensen.entropy(p / p.sum()) + np.log(step) for name, p in densities.items()}
most = 0.5 * np.log(2 * np.pi * np.e)
for name, p in densities.items():
    assert abs(p @ x**2 * step - 1) < 1e-3
    assert abs(most - nats[name] - jensen.kl(p / p.sum(), gaussian / gaussian.sum())) < 1e-3, "lower by KL(p ‖ N)"
exact = {"Gaussian": most, "logistic": 2 + np.log(3**0.5 / np.pi), "Laplace": 1 + np.log(2**0.5)}
assert all(abs(nats[name] - value) < 1e-3 for name, value in {**exact, "uniform": 0.5 * np.log(12)}.items())
print("nats at variance 1:", ", ".join(f"{name} {value:.4f}" for name, value in nats.items()))

fig = figure(13, 7.6)
(of_words, of_prices), (of_blocks, of_densities) = fig.subplots(2, 2, width_ratios=(1.25, 1))
of_words.bar(np.arange(1, K + 1), -np.log2(zipf), color=PALE, width=0.85, label="ideal length, −log₂ P(x)")
of_words.step(np.arange(1, K + 1), lengths, where="mid", color=COLOURS[0], label="Huffman's code, whole bits")
of_words.axhline(5, color=COLOURS[1], lw=1.4, ls="--", label="5 bits for all symbols")
for s in (3, 7, 15, 28):
    of_words.annotate(words[s - 1], (s, lengths[s - 1]), (0, 3), textcoords="offset points", ha="center")
of_words.set(xlabel="symbol, most frequent first", ylabel="bits", ylim=(0, 9.4), xlim=(0.3, K + 0.7))
of_words.set_title("Zipf's law: frequent symbols have short code words")
of_words.legend(loc="upper left", ncols=3, columnspacing=1.2, handlelength=1.6)

of_prices.bar(list(codes), H, color=COLOURS[0], alpha=0.8, width=0.6, label="H(P)")
of_prices.bar(list(codes), list(price.values()), bottom=H, color=COLOURS[1], alpha=0.85, width=0.6, label="KL(P ‖ Q)")
for k, value in enumerate(cost.values()):
    of_prices.text(k, value + 0.1, f"{value:.3f}", ha="center", color=INK)
of_prices.set(ylabel="bits per symbol", ylim=(0, 9.4), title="mean length under different codes: H(P, Q)")
of_prices.legend(loc="upper left", ncols=2)

n = np.array(list(blocks))
of_blocks.fill_between(n, H_coin, H_coin + 1 / n, color=PALE, lw=0)
of_blocks.plot(n, list(blocks.values()), "o-", color=COLOURS[0])
of_blocks.axhline(H_coin, color=INK, lw=1.2, ls="--")
of_blocks.text(1, H_coin - 0.02, f"H = {H_coin:.3f}", va="top")
of_blocks.text(2.75, 0.65, "between H and H + 1/n", color=GREY)
for k, value in blocks.items():
    of_blocks.annotate(f"{value:.3f}", (k, value), (2, 6), textcoords="offset points", color=COLOURS[0])
of_blocks.set(xlabel="n tosses coded at a time", ylabel="bits per toss", xticks=n, xlim=(0.8, 8.6), ylim=(0.3, 1.25))
of_blocks.set_title("a coin with P(heads) = 0.9: longer blocks approach H")

near = np.abs(x) < 3.4
for (name, p), colour in zip(densities.items(), (INK, *COLOURS), strict=False):
    of_densities.plot(x[near], p[near], color=colour, label=f"{name}, {nats[name]:.3f} nats")
of_densities.set(xlabel="x", ylabel="density", xlim=(-3.4, 3.4), ylim=(0, 0.86))
of_densities.set_title("densities of variance 1: the Gaussian has the largest entropy")
of_densities.legend(loc="upper right")
title(fig, "Entropy is the cost of the best code; KL is the extra cost of the wrong code")
save(fig, PICTURE)
