"""Text files of separated cells, in parts that end where a line ends."""

from __future__ import annotations

import itertools
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from jensen.files.layout import SAID, SAMPLE, USUAL, find_layout
from jensen.files.parts import NO_COMMENTS, PART_BYTES, Part, Stamp, check_names, damage_named, frame_of
from jensen.files.places import PACKED, SEPARATORS
from jensen.files.reading import ONLY

# Bytes read at a time.
TEXT_BLOCK = 2**23
MISSING = (*USUAL, *SAID, "?")
TYPES = {"text": "string", "number": "double", "date": "timestamp[ns]"}


@dataclass(frozen=True)
class TextOptions:
    """How to read text files.

    Args:
        missing: more codes of missing values; after "only" no others count, except empty cells.
        types: what columns are, by name: "text", "number" or "date"; others are found.
        header: whether the first line has the names of the columns; found if not given.
    """

    missing: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        own = tuple(code for code in self.missing if code != ONLY)
        return ("", *(() if ONLY in self.missing else MISSING), *own)

    @property
    def arrow_types(self) -> dict[str, str]:
        for name, kind in self.types.items():
            if kind not in TYPES:
                raise ValueError(
                    f"types={{{name!r}: {kind!r}}}: files that are read block by block have columns of "
                    f"{', '.join(TYPES)}; choose one of them, or convert the file to Parquet first"
                )
        return {name: TYPES[kind] for name, kind in self.types.items()}


@dataclass(frozen=True)
class TextPart:
    """Lines of a text file of separated cells, from byte `start` to byte `stop`.

    The types of the columns are those of the file's first block, whole numbers as floating ones.
    """

    stamp: Stamp
    start: int
    stop: int
    separator: str
    names: tuple[str, ...]
    types: Mapping[str, str]
    missing: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    n_rows: None = None
    is_fast: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"{self.stamp.path}, bytes {self.start} to {self.stop}"

    def as_written(self, columns: tuple[str, ...] | None) -> TextPart:
        """The same rows of some columns, or of all, with every cell as it is written; blocks are of the same rows."""
        return replace(self, types=dict.fromkeys(self.names, "string"), missing=(), columns=columns)

    def blocks(self, n_rows: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv

        self.stamp.check()
        with damage_named(self.name), pa.memory_map(self.stamp.path) as file:
            file.seek(self.start)
            lines = pa.BufferReader(file.read_buffer(self.stop - self.start))
            reader = csv.open_csv(
                lines,
                csv.ReadOptions(
                    use_threads=False, block_size=TEXT_BLOCK, column_names=list(self.names), encoding=self.encoding
                ),
                csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                csv.ConvertOptions(
                    column_types={name: pa.type_for_alias(kind) for name, kind in self.types.items()},
                    null_values=list(self.missing),
                    strings_can_be_null=True,
                    include_columns=None if self.columns is None else list(self.columns),
                ),
            )
            for batch in reader:
                for start in range(0, batch.num_rows, n_rows):
                    yield frame_of(batch.slice(start, n_rows))
        self.stamp.check()


def text_parts(path: Path, stamp: Stamp, columns: tuple[str, ...] | None, options: TextOptions) -> Iterator[TextPart]:
    """Parts of a text file of separated cells that end where a line ends."""
    import pyarrow as pa
    from pyarrow import csv

    suffix = path.suffix.lower()
    if suffix not in SEPARATORS:
        if suffix in PACKED:
            raise ValueError(
                f"{path} is packed, and blocks cannot be read from the middle of a packed file; unpack it, or write it "
                "as Parquet, which is packed inside"
            )
        known = ".parquet, .feather, .arrow, .npy, .csv, .tsv"
        raise ValueError(f"{path} cannot be read block by block; give files that end in {known}")
    with open(path, "rb") as file:
        sample = file.read(SAMPLE)
    layout = find_layout(sample, SEPARATORS[suffix], options.header)
    if sample.startswith(b"#") and not layout.is_table:
        raise ValueError(f"{path} begins with a comment; {NO_COMMENTS}")
    if not layout.has_header and options.header is None:
        raise ValueError(
            f"{path} has no header line; write one, or give header=False, with which columns are called x0, x1, ..."
        )
    if layout.encoding.startswith("utf-16"):
        raise ValueError(f"{path} is written in UTF-16, whose lines cannot be told apart; convert it to UTF-8 first")
    names, encoding = tuple(layout.names), layout.encoding.removesuffix("-sig")
    check_names(path, names, (*(columns or ()), *options.types))
    begin = after_first_line(path) if layout.has_header else len(BOM_UTF8) * layout.encoding.endswith("-sig")
    with open(path, "rb") as file:
        file.seek(begin)
        sample = file.read(TEXT_BLOCK)
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    if not sample.strip():
        return
    first = csv.read_csv(
        pa.BufferReader(sample),
        csv.ReadOptions(column_names=list(names), encoding=encoding),
        csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True),
        csv.ConvertOptions(
            column_types={name: pa.type_for_alias(kind) for name, kind in options.arrow_types.items()},
            null_values=list(options.codes),
            strings_can_be_null=True,
        ),
    )
    types = {field.name: usual_type(field.type) for field in first.schema}
    ends = [begin, *line_ends(path, begin), stamp.size]
    for start, stop in itertools.pairwise(ends):
        if stop > start:
            yield TextPart(stamp, start, stop, layout.separator, names, types, options.codes, columns, encoding)


def check_text(parts: Sequence[Part], options: TextOptions) -> None:
    """An error for options of text files where there are others."""
    given = {"missing": options.missing, "types": options.types, "header": options.header}
    for name, value in given.items():
        if value not in ((), {}, None) and (other := next((p for p in parts if not isinstance(p, TextPart)), None)):
            raise ValueError(
                f"{name}={value!r} is for text files, which {other.name.partition(',')[0]} is not; leave it out, and "
                "change the table where it is written"
            )


def usual_type(kind: Any) -> str:
    """The type to read a column as, given that of its first rows: later rows may have decimals."""
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return "double"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp[ns]"
    return "bool" if pa.types.is_boolean(kind) else "string"


def after_first_line(path: Path) -> int:
    with open(path, "rb") as file:
        line = file.readline()
        while line.count(b'"') % 2 and (more := file.readline()):
            line += more
        return file.tell()


def line_ends(path: Path, begin: int) -> Iterator[int]:
    """Places where a line ends outside of quotes, about every so many bytes."""
    quotes, place, wanted = 0, begin, begin + PART_BYTES
    with open(path, "rb") as file:
        file.seek(begin)
        for block in iter(lambda: file.read(TEXT_BLOCK), b""):
            if place + len(block) <= wanted:
                quotes, place = quotes + block.count(b'"'), place + len(block)
                continue
            at = max(0, wanted - place)
            while (end := block.find(b"\n", at)) >= 0:
                if (quotes + block.count(b'"', 0, end)) % 2 == 0:
                    yield place + end + 1
                    wanted = place + end + 1 + PART_BYTES
                    break
                at = end + 1
            quotes, place = quotes + block.count(b'"'), place + len(block)
