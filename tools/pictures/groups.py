"""Pictures of pages on groups: the bound, mixtures, k-means, topics."""

from __future__ import annotations

import warnings

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.datasets import load_iris

from drawing import COLOURS, GREY, INK, ellipses, figure
from jensen import (
    DiscriminantAnalysis,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentClassAnalysis,
    LatentDirichletAllocation,
    Mixture,
    NaiveBayes,
)

__all__ = [
    "discriminant_analysis",
    "gaussian_mixture",
    "kmeans",
    "kmedoids",
    "latent_classes",
    "mixture",
    "naive_bayes",
    "one_bound",
    "topics",
]


def plane(
    low: tuple[float, float], high: tuple[float, float], n: int = 250
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two coordinates on a grid, and the same as rows."""
    a, b = np.meshgrid(np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], n))
    return a, b, np.column_stack([a.ravel(), b.ravel()])


def one_bound() -> Figure:
    """The bound of one row for every q, in a mixture of two."""
    joint = np.log([0.6 * norm.pdf(0.3, -1, 1), 0.4 * norm.pdf(0.3, 1.5, 1)])
    exact = np.logaddexp(*joint)
    q = np.linspace(1e-6, 1 - 1e-6, 400)
    bound = q * (joint[0] - np.log(q)) + (1 - q) * (joint[1] - np.log(1 - q))
    posterior = np.exp(joint[0] - exact)
    fig = figure(6, 2.7)
    ax = fig.subplots()
    ax.axhline(exact, color=INK, lw=1.4)
    ax.text(0.99, exact + 0.03, "ln p(x)", ha="right")
    ax.plot(q, bound, color=COLOURS[0])
    ax.plot(posterior, exact, "o", color=COLOURS[0], ms=7)
    ax.annotate(
        "q = p(z|x): no gap",
        (posterior, exact),
        (posterior, exact - 0.55),
        ha="center",
        color=COLOURS[0],
        arrowprops={"arrowstyle": "-", "color": COLOURS[0]},
    )
    at = 24
    ax.annotate(
        "", (q[at], exact), (q[at], bound[at]), arrowprops={"arrowstyle": "<->", "color": COLOURS[1], "lw": 1.6}
    )
    ax.text(q[at] + 0.03, exact - 0.7, "gap = KL(q ‖ p(z|x))", va="center", color=COLOURS[1])
    ax.set(xlabel="q(z = 1)", ylabel="nats", xlim=(0, 1), ylim=(exact - 1.3, exact + 0.25))
    ax.text(0.93, bound[370] - 0.28, "ELBO(q)", color=COLOURS[0], ha="right")
    return fig


def gaussian_mixture() -> Figure:
    """EM on two features of the irises, at three moments."""
    X = load_iris().data[:, [0, 2]]
    start = {"means_init": [[5, 5.5], [6, 3], [7.5, 4]], "weights_init": [1 / 3] * 3}
    start["precisions_init"] = np.stack([np.eye(2) * 2] * 3)
    fig = figure(6, 2.5)
    for ax, n_steps in zip(fig.subplots(1, 3, sharey=True), (0, 3, 100), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianMixture(3, **start, max_iter=n_steps, tol=1e-6).fit(X)
        shares = model.predict_proba(X)
        rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in COLOURS[:3]])
        ax.scatter(*X.T, s=7, c=np.clip(shares @ rgb, 0, 1))
        ellipses(ax, model)
        ax.set(title=f"{n_steps or 'no'} steps" if n_steps < 100 else "the end", xlim=(4, 8.2), ylim=(0.4, 7.4))
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{model.score(X):.2f} nats per row")
    return fig


def mixture() -> Figure:
    """Two groups of customers in columns of three kinds."""
    import pandas as pd

    rng = np.random.default_rng(0)
    group = rng.random(600) < 0.4
    X = pd.DataFrame(
        {
            "age": np.where(group, rng.normal(62, 7, 600), rng.normal(30, 6, 600)),
            "visits": rng.poisson(np.where(group, 6, 2)),
            "pays": np.where(rng.random(600) < np.where(group, 0.8, 0.25), "cash", "card"),
        }
    )
    model = Mixture(2, random_state=0).fit(X)
    found = model.predict(X)
    fig = figure(6, 2.4)
    age, visits, pays = fig.subplots(1, 3)
    for k, colour in enumerate(COLOURS[:2]):
        own = X[found == k]
        age.hist(own["age"], np.arange(10, 91, 4), color=colour, alpha=0.75)
        visits.hist(own["visits"], np.arange(-0.5, 14), color=colour, alpha=0.75)
        share = (own["pays"] == "cash").mean()
        pays.bar([k - 0.19, k + 0.19], [share, 1 - share], 0.36, color=[colour, "#CCCCCC"])
    age.set(title="age: a number", yticks=[])
    visits.set(title="visits: a count", yticks=[])
    pays.set(title="pays: a level", yticks=[0, 1], yticklabels=["0 %", "100 %"], xticks=[0, 1])
    pays.set_xticklabels([f"group {k}\ncash, card" for k in (1, 2)])
    return fig


def latent_classes() -> Figure:
    """Which kinds of cheating two classes of students admit."""
    import itertools

    import pandas as pd

    columns = ["exam", "paper", "fraud", "copied"]
    patterns = pd.DataFrame([*itertools.product((1, 2), repeat=4)], columns=columns)
    students = [207, 46, 7, 5, 13, 4, 1, 2, 10, 3, 1, 2, 11, 4, 1, 2]
    model = LatentClassAnalysis(2, random_state=0).fit(patterns, sample_weight=students)
    order = np.argsort(-model.weights_)
    fig = figure(6, 2.4)
    ax = fig.subplots()
    for place, k in enumerate(order):
        yes = [float(np.asarray(model.probabilities_[column])[k, 1]) for column in columns]
        ax.bar(
            np.arange(4) + 0.4 * place - 0.2,
            yes,
            0.38,
            color=COLOURS[place],
            label=f"class {place + 1}: {100 * model.weights_[k]:.0f} % of the students",
        )
    names = ["lied about\nan exam", "lied about\na paper", "bought\na paper", "copied\nin an exam"]
    ax.set(ylabel="probability of yes", ylim=(0, 1))
    ax.set_xticks(range(4), names)
    ax.legend()
    return fig


def naive_bayes() -> Figure:
    """Densities of one feature by class, and what they say about the class."""
    iris = load_iris()
    X, y = iris.data[50:, [3]], iris.target[50:]
    model = NaiveBayes().fit(X, y)
    x = np.linspace(0.7, 2.8, 300)
    fig = figure(6, 2.6)
    left, right = fig.subplots(1, 2)
    shares = model.predict_proba(x[:, None])
    for k, name in enumerate(("versicolor", "virginica")):
        own = X[y == k + 1, 0]
        left.hist(own, np.arange(0.75, 2.8, 0.1), color=COLOURS[k], alpha=0.3, density=True)
        left.plot(x, norm.pdf(x, own.mean(), own.std()), color=COLOURS[k], label=name)
        right.plot(x, shares[:, k], color=COLOURS[k])
    left.legend()
    left.set(title="p(x | class)", xlabel="petal width, cm", yticks=[])
    right.set(title="p(class | x), by Bayes' rule", xlabel="petal width, cm", yticks=[0, 0.5, 1])
    return fig


def discriminant_analysis() -> Figure:
    """A line and a curve between the same two classes."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(150, 2)) * [2, 0.6], rng.normal(size=(150, 2)) * [0.6, 0.8] + [1.5, 2.4]])
    y = np.repeat([0, 1], 150)
    a, b, grid = plane((-5, -2), (5, 5))
    fig = figure(6, 2.7)
    panels = {"one covariance for both": "tied", "a covariance for each": "full"}
    for ax, (name, structure) in zip(fig.subplots(1, 2, sharey=True), panels.items(), strict=True):
        model = DiscriminantAnalysis(structure).fit(X, y)
        share = model.predict_proba(grid)[:, 1].reshape(a.shape)
        ax.contourf(a, b, share, [0, 0.5, 1], colors=COLOURS[:2], alpha=0.16)
        ax.contour(a, b, share, [0.5], colors=[INK], linewidths=1.2)
        for k in (0, 1):
            ax.scatter(*X[y == k].T, s=6, color=COLOURS[k])
        ax.set(title=name, xlabel=f"{100 * (model.predict(X) == y).mean():.1f} % right")
        ax.set_xticks([])
        ax.set_yticks([])
    return fig


def kmeans() -> Figure:
    """Centres, the rows nearest to each, and the borders between them."""
    rng = np.random.default_rng(2)
    centres = np.array([[0, 0], [4, 1], [1.5, 4], [5.5, 4.5]])
    X = np.concatenate([centre + 0.8 * rng.normal(size=(90, 2)) for centre in centres])
    fig = figure(6, 2.7)
    a, b, grid = plane((-3, -3), (9, 8), 400)
    panels = {"start: four rows at random": 0, "two steps": 2, "the end": 100}
    for ax, (name, n_steps) in zip(fig.subplots(1, 3, sharey=True), panels.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            init = X[[5, 20, 100, 200]]
            found = init if n_steps == 0 else KMeans(4, init=init, n_init=1, max_iter=n_steps).fit(X).cluster_centers_
        nearest = ((grid[:, None] - found) ** 2).sum(-1).argmin(1).reshape(a.shape)
        ax.contourf(a, b, nearest, np.arange(-0.5, 4), colors=COLOURS[:4], alpha=0.18)
        own = ((X[:, None] - found) ** 2).sum(-1)
        ax.scatter(*X.T, s=4, c=[COLOURS[k] for k in own.argmin(1)])
        ax.plot(*found.T, "X", color=INK, ms=8, mec="white")
        ax.set(title=name.replace(": ", ":\n"), xlabel=f"loss {own.min(1).sum():.0f}")
        ax.set_xticks([])
        ax.set_yticks([])
    return fig


def kmedoids() -> Figure:
    """A far row moves a mean, not a medoid."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(40, 2)) * 0.7, rng.normal(size=(40, 2)) * 0.7 + [4, 0], [[11, 2.5], [12, 2]]])
    fig = figure(6, 2.3)
    ax = fig.subplots()
    ax.scatter(*X.T, s=10, color=GREY)
    means = KMeans(2, random_state=0).fit(X).cluster_centers_
    medoids = KMedoids(2, random_state=0).fit(X).cluster_centers_
    ax.plot(*means.T, "X", color=COLOURS[1], ms=11, label="means of squared distances (k-means)")
    ax.plot(*np.asarray(medoids).T, "o", color=COLOURS[0], ms=9, label="medoids: rows in the middle of others")
    ax.set(xticks=[], yticks=[], ylim=(-2.4, 5.4))
    ax.legend(loc="upper left")
    return fig


def topics() -> Figure:
    """Shares of the topics in a document that is about two things, and the topic of each word."""
    parts = {"weather": "rain wind sun cloud storm snow", "kitchen": "bread butter flour salt oven milk"}
    rng = np.random.default_rng(0)
    words = [part.split() for part in parts.values()]
    texts = []
    for share in rng.dirichlet([0.4, 0.4], 200):
        texts.append(" ".join(rng.choice(words[k]) for k in rng.choice(2, 40, p=share)))
    model = LatentDirichletAllocation(2, random_state=0).fit(texts)
    text = "storm outside bread in the oven butter and flour rain on the roof"
    shares = model.transform([text])[0]
    found = model.topics_
    fig = figure(6, 2.5)
    left, right = fig.subplots(1, 2, width_ratios=(1.6, 1))
    left.axis("off")
    topic_of = {row.word: row.topic for row in found.itertuples() if row.probability > 0.05}
    x = y = 0.0
    for word in text.split():
        colour = COLOURS[int(topic_of[word])] if word in topic_of else GREY
        left.text(x, 1 - y, word, color=colour, fontsize=13, fontweight="bold" if word in topic_of else "normal")
        x += 0.052 * len(word) + 0.05
        if x > 0.86:
            x, y = 0.0, y + 0.24
    left.set(xlim=(0, 1), ylim=(0, 1.15), title="each word comes from a topic")
    right.barh([0, 1], shares, color=COLOURS[:2])
    names = [", ".join(w for w, k in topic_of.items() if int(k) == topic)[:16] + "…" for topic in (0, 1)]
    right.set_yticks([0, 1], names)
    right.set(title="shares of the document", xlim=(0, 1), xticks=[0, 1], xticklabels=["0 %", "100 %"])
    return fig
