"""Pack the built site for a server that keeps the sites of all versions side by side.

    python tools/site_archive.py site dist
writes dist/jensen-VERSION-site.tar.gz. Its pages are below VERSION/, and index.html beside it leads to them: unpacked
over those of earlier versions, the root leads to this one, and old addresses still work. Equal sites give equal bytes.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

import jensen

__all__ = ["pack"]

INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>jensen</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
</head>
<body><p>The newest version: <a href="{version}/index.html">jensen {version}</a></p></body>
</html>
"""


def pack(site: Path, folder: Path, version: str) -> Path:
    """Write the archive into a folder."""
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} has no index.html; build the site with `make docs`")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"jensen-{version}-site.tar.gz"
    # The page of wrong addresses begins at the root of a server, where a version is not.
    pages = [path for path in site.rglob("*") if path.is_file() and path != site / "404.html"]
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        add(archive, "index.html", INDEX.format(version=version).encode())
        for path in sorted(pages):
            add(archive, f"{version}/{path.relative_to(site).as_posix()}", path.read_bytes())
    return target


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


def main() -> None:
    try:
        target = pack(Path(sys.argv[1]), Path(sys.argv[2]), jensen.__version__)
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
