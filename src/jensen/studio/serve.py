"""Start and stop the server: on the loopback address only, with a random token in its address."""

from __future__ import annotations

import socket
import threading
import time
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from jensen.runtime.watching import Watch
from jensen.studio.app import studio_app
from jensen.studio.folder import Folder
from jensen.studio.guard import new_token
from jensen.studio.trained import stop_trainings

LOOPBACK = "127.0.0.1"


def bound_socket(port: int | None) -> socket.socket:
    """A socket on the loopback address; without a port the system chooses a free one."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port that was used a moment ago can be used again at once.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK, port or 0))
        # Who asks before the server runs waits in the queue of the socket.
        found.listen(128)
    except OSError:
        found.close()
        raise ValueError(f"port {port} is in use; give another with --port, or none for a free one") from None
    return found


class Server(uvicorn.Server):
    """A server that knows its address.

    Args:
        folder: whose files the page may open.
        port: on which it listens; None for a free one.
        watch: the fit that the page shows, if there is one.
    """

    def __init__(self, folder: Folder, port: int | None = None, watch: Watch | None = None) -> None:
        self.listening = bound_socket(port)
        self.port = int(self.listening.getsockname()[1])
        self.token = new_token()
        # Answers are small and computed in threads; what hangs does not keep Ctrl-C from ending the server.
        options: dict[str, Any] = {"log_level": "error", "access_log": False, "timeout_graceful_shutdown": 1}
        options |= {"server_header": False, "date_header": False, "proxy_headers": False}
        options |= {"lifespan": "off", "ws": "none", "http": "h11", "loop": "asyncio"}
        super().__init__(uvicorn.Config(studio_app(self.token, self.port, folder, watch), **options))

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def serve_until_stopped(self) -> None:
        """Answer until Ctrl-C."""
        try:
            self.run(sockets=[self.listening])
        except KeyboardInterrupt:
            pass
        finally:
            self.listening.close()
            stop_trainings()


@contextmanager
def in_background(server: Server) -> Iterator[Server]:
    """A server in a thread of its own, as long as the block runs."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [server.listening]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        server.listening.close()
        stop_trainings()


def run(folder: Folder, port: int | None, *, opens_browser: bool, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, and open a browser if asked to."""
    server = Server(folder, port)
    say(f"jensen studio: {server.address} (Ctrl-C ends it)")
    if opens_browser:
        open_browser(server, "ask" if folder.given else "")
    with warnings.catch_warnings():
        # Explainers stop fits early on purpose.
        warnings.simplefilter("ignore")
        server.serve_until_stopped()


def open_browser(server: Server, screen: str) -> None:
    """Show a screen in the user's browser, which may take a moment to start."""
    address = f"{server.address}#{screen}" if screen else server.address
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
