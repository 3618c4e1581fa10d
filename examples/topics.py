"""Topics of 1200 pages: what scipy's own documentation is about.

    python examples/topics.py [picture.png]
The documents are the docstrings of scipy's public functions and classes, which come with the library. Ten topics are
found without looking at the subpackage that a page belongs to; on the right are the shares of the topics in the pages
of each subpackage. The number of topics is judged by document completion: half of the words of a page that was not
trained on predict the other half. By scikit-learn's perplexity of the same pages, 40 topics are worse than one.
"""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import LatentDirichletAllocation

PICTURE = picture_path(__doc__)
PARTS = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial"]
PARTS += ["special", "stats"]
# Words that every page has because of its form.
FORM = (
    "array array_like returns parameters optional float int default scipy numpy np import true false none examples see"
)
FORM += " notes references type given used function value values input output shape see also ndarray bool plt axis plot"
N_TOPICS = 10

texts, parts = [], []
for number, part in enumerate(PARTS):
    module = import_module(f"scipy.{part}")
    pages = {inspect.getdoc(getattr(module, name, None)) or "" for name in getattr(module, "__all__", dir(module))}
    # Objects without a page of their own have that of their type.
    own = sorted(page for page in pages if 300 < len(page) < 20_000)
    texts += own
    parts += [number] * len(own)
texts, parts = np.array(texts, dtype=object), np.array(parts)
order = np.random.default_rng(0).permutation(len(texts))
train, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]

words = {"stop_words": [*set(FORM.split()) | {"the", "of", "is", "and", "to", "in", "for", "if", "be", "with", "by"}]}
words |= {"min_df": 10, "max_df": 0.3}
print(f"{len(train)} pages to train on, {len(test)} to complete")
numbers, completion, perplexity = (1, 3, 10, 40), [], []
for k in numbers:
    model = LatentDirichletAllocation(k, random_state=0, **words).fit(texts[train])
    completion.append(model.document_completion(texts[test]))
    perplexity.append(model.perplexity(texts[test]))
    print(f"K = {k:2d}: completion {completion[-1].perplexity:6.1f}, scikit-learn's perplexity {perplexity[-1]:9.1f}")

model = LatentDirichletAllocation(N_TOPICS, random_state=0, **words).fit(texts)
top = model.top_words(5)
labels = [", ".join(part["word"]) for _, part in top.groupby("topic")]
shares = model.transform(texts)
table = np.array([shares[parts == number].mean(0) for number in range(len(PARTS))])
best = table.argmax(0)
rank = np.lexsort((-table.max(0), best))

gains = np.diff([found.nats_per_word for found in completion])
assert (gains > 5 * completion[0].standard_error).all()
assert perplexity[-1] > perplexity[0]
assert len(set(best)) >= 5

fig = figure(13, 5.2)
left, right = fig.subplots(1, 2, width_ratios=(1, 1.5))
nats = np.array([found.nats_per_word for found in completion])
errors = np.array([found.standard_error for found in completion])
left.errorbar(numbers, np.exp(-nats), np.exp(-nats) * errors, fmt="o-", color=COLOURS[0], label="document completion")
left.plot(numbers, perplexity, "s--", color=COLOURS[1], label="scikit-learn's perplexity")
left.set(xscale="log", yscale="log", xlabel="number of topics", ylabel="perplexity of pages not trained on")
left.set_xticks(numbers, [str(k) for k in numbers])
left.set_yticks(ticks := (300, 500, 1000), [str(tick) for tick in ticks])
left.minorticks_off()
left.legend()
left.set_title("lower is better")
image = right.imshow(table[:, rank].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
right.set_xticks(range(len(PARTS)), PARTS, rotation=45, ha="right")
right.set_yticks(range(N_TOPICS), [labels[k] for k in rank])
right.tick_params(length=0)
right.spines[:].set_visible(False)
right.set_title("mean share of a topic (its five words) in the pages of a subpackage")
fig.colorbar(image, ax=right, fraction=0.03, pad=0.02, label="share").outline.set_edgecolor(GREY)
title(fig, "Topics of scipy's documentation follow its subpackages, and more of them predict words better")
save(fig, PICTURE)
