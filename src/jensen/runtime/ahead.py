"""Reading ahead: the next items are made in a thread while the caller works on this one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterable[Item], n: int = 1) -> Iterator[Item]:
    """The same items, at most n of them made before they are asked for; an error comes at its place."""
    made: queue.Queue[Any] = queue.Queue(maxsize=n)
    is_left = threading.Event()

    def put(item: Any) -> bool:
        while not is_left.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    thread = threading.Thread(target=work, name="jensen-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        is_left.set()
        thread.join()
