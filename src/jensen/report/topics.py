"""Panels about topics: their words, typical documents, shares over documents, and document completion.

Documents are texts or counts; sparse counts stay sparse.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from jensen.data.container import as_array
from jensen.data.names import word_name
from jensen.models.topics.pictures import sorted_documents
from jensen.report.charts import BOTTOM, RIGHT, TOP, WIDTH, Frame, axis_x, labelled, number, row_name, svg
from jensen.report.html import table
from jensen.report.images import write_png
from jensen.report.subject import Subject

# Words of a topic, letters of a text, words of counts, and documents of a topic on the page.
N_WORDS, N_LETTERS, N_COUNTED, N_TYPICAL = 10, 120, 8, 3
# Of the heat map: documents that are told apart, height of a row, and colour.
MOST_COLUMNS, ROW, BLUE = 400, 18, (0, 114, 178)

Made = tuple[str, str, str] | None


def topics(subject: Subject) -> Made:
    """The most probable words of every topic, with probability and lift."""
    model = subject.model
    if not hasattr(model, "top_words"):
        return None
    coherence = model.coherence(subject.model_rows, N_WORDS)
    groups = [group for _, group in model.top_words(N_WORDS).groupby("topic")]
    groups.sort(key=lambda group: -group["share"].iloc[0])
    numbers = [int(group["topic"].iloc[0]) for group in groups]
    cells = pd.DataFrame(
        {
            "topic": [topic_name(model, k) for k in numbers],
            "share": [float(group["share"].iloc[0]) for group in groups],
            "coherence": coherence[numbers],
            "words with probability and lift": [
                ", ".join(f"{word_name(one.word)} {one.probability:.1%} ×{one.lift:.1f}" for one in group.itertuples())
                for group in groups
            ],
        }
    )
    text = (
        "Every topic: its share of the training words; its coherence, the NPMI of its words in these documents, "
        "from -1 (never together) to 1 (always together); and its most probable words, with their probability "
        "in the topic and their lift, the ratio to their probability in all documents."
    )
    return "Topics", text, f'<div class="prose">{table(cells, sortable=True)}</div>'


def typical(subject: Subject) -> Made:
    """The documents with the largest share of every topic."""
    model = subject.model
    if not hasattr(model, "typical_documents"):
        return None
    found = model.typical_documents(subject.model_rows, N_TYPICAL)
    places = found["document"].to_numpy()
    cells = pd.DataFrame(
        {
            "topic": [topic_name(model, k) for k in found["topic"]],
            "share": found["share"],
            "document": [subject.number(i) for i in places],
            **({} if subject.labels is None else {"label": [subject.labels[i] for i in places]}),
            beginning(subject): excerpts(subject, places),
        }
    )
    text = f"The {N_TYPICAL} documents with the largest share of every topic."
    return "Typical documents", text, f'<div class="prose">{table(cells, sortable=True)}</div>'


def topic_shares(subject: Subject) -> Made:
    """A heat map of the shares of topics in documents."""
    model = subject.model
    if not hasattr(model, "typical_documents"):
        return None
    found = as_array(model.transform(subject.model_rows))
    names = [topic_name(model, k) for k in range(found.shape[1])]
    text = "Documents from left to right, sorted by their largest topic. The stronger the colour, the larger the share."
    return "Shares of topics", text, heat_map(found, names)


def completion(subject: Subject) -> Made:
    """How well half of the words of a document predict the others."""
    model = subject.model
    if not hasattr(model, "document_completion"):
        return None
    rows = subject.model_rows
    found = model.document_completion(rows)
    overall = float(counts_of(model, rows).sum(1).mean())
    cells = pd.DataFrame(
        {
            "perplexity": [found.perplexity],
            "nats per word": [found.nats_per_word],
            "± s.e.": [found.standard_error],
            "words scored": [whole(found.n_words)],
            "documents": [found.n_documents],
            "words per document": [overall],
        }
    )
    text = (
        "Half of the words of every document infer its topics, and the other half is scored. A lower perplexity is "
        "better. Documents of the fit flatter the model: compare numbers of topics on other documents."
    )
    return "Document completion", text, table(cells)


def counts_of(model: Any, rows: Any) -> csr_array:
    """Counts of words: by a model of texts, or the rows themselves."""
    return csr_array(model.count_words(rows) if hasattr(model, "count_words") else rows)


def nats_per_word(subject: Subject) -> np.ndarray:
    """Scores by which long documents are not the least likely; one without words has 0."""
    lengths = counts_of(subject.model, subject.model_rows).sum(1)
    return np.asarray(as_array(subject.model.score_samples(subject.model_rows)) / np.maximum(lengths, 1.0))


def model_divergence(subject: Subject) -> str:
    """A sentence about the divergence that belongs to the topics and to no document."""
    found = getattr(subject.model, "topics_kl_", None)
    if found is None:
        return ""
    return f" The KL of the topics themselves, {number(float(found))} nats, belongs to the model and to no document."


def topic_name(model: Any, k: int) -> str:
    classes = getattr(model, "classes_", ())
    return str(classes[k]) if k < len(classes) else str(k)


def beginning(subject: Subject) -> str:
    return "text" if is_texts(subject) else "most frequent words"


def is_texts(subject: Subject) -> bool:
    return len(subject.model_rows.shape) == 1


def excerpts(subject: Subject, places: np.ndarray) -> list[str]:
    """The beginning of texts, or the most frequent words of counts."""
    if is_texts(subject):
        return [shortened(subject.model_rows[i]) for i in places]
    model, out = subject.model, []
    counts, known = counts_of(model, subject.some(places).model_rows), getattr(model, "words_", subject.names)
    for i in range(counts.shape[0]):
        own = slice(counts.indptr[i], counts.indptr[i + 1])
        numbers, words = counts.data[own], counts.indices[own]
        best = np.argsort(-numbers, kind="stable")[:N_COUNTED]
        out.append(", ".join(f"{word_name(known[words[j]])} {number(numbers[j])}" for j in best))
    return out


def shortened(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    line = " ".join(text[: 4 * N_LETTERS].split())
    return line if len(line) <= N_LETTERS else line[:N_LETTERS] + "…"


def whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def heat_map(values: np.ndarray, names: list[str]) -> str:
    """Shares (n, K), a row per name: the stronger a colour, the larger the share."""
    n, k = values.shape
    best = values.argmax(1)
    counts = np.bincount(best, minlength=k)
    topics, order = np.argsort(-counts, kind="stable"), sorted_documents(values)
    shown = order[np.unique(np.linspace(0, n - 1, min(n, MOST_COLUMNS)).round().astype(int))]
    pixels = np.zeros((k, len(shown), 4), dtype=np.uint8)
    # The ground shows through, so that the picture fits a light and a dark page.
    pixels[..., :3] = BLUE
    pixels[..., 3] = (255 * values[shown][:, topics].T).round()
    file = io.BytesIO()
    write_png(pixels, file)
    data = base64.b64encode(file.getvalue()).decode()
    left = min(150, 20 + 8 * max(map(len, names)))
    frame = Frame((0.0, float(n)), (0.0, 1.0), left, TOP + BOTTOM + ROW * k)
    body = [axis_x(frame, "documents", is_counted=True)]
    body.append(
        f'<image x="{left}" y="{TOP}" width="{WIDTH - RIGHT - left}" height="{ROW * k}" preserveAspectRatio="none" '
        f'style="image-rendering: pixelated" href="data:image/png;base64,{data}"/>'
    )
    for i, j in enumerate(topics):
        tip = f"topic {names[j]}: the largest topic of {counts[j]} documents, mean share {number(values[:, j].mean())}"
        y = TOP + (i + 0.5) * ROW
        place = f'x="{left}" y="{y - ROW / 2:.1f}" width="{WIDTH - RIGHT - left}" height="{ROW}"'
        name = row_name(frame, y, shortened_name(names[j]))
        body.append(f'<g class="mark" {labelled(tip)}>{name}<rect {place} fill="transparent"/></g>')
    largest = names[int(topics[0])]
    return svg("".join(body), frame.height, f"Shares of {k} topics in {n} documents; {largest} is the largest", "group")


def shortened_name(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"
