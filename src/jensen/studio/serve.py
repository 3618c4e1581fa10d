"""Start and stop the server: on the loopback address only, with a random token in its address."""

from __future__ import annotations

import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from jensen.studio.app import studio_app
from jensen.studio.guard import new_token

LOOPBACK = "127.0.0.1"


def bound_socket(port: int | None) -> socket.socket:
    """A socket on the loopback address; without a port the system chooses a free one."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port that was used a moment ago can be used again at once.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK, port or 0))
    except OSError:
        found.close()
        raise ValueError(f"port {port} is in use; give another with --port, or none for a free one") from None
    return found


class Server(uvicorn.Server):
    """A server that knows its address.

    Args:
        port: on which it listens; None for a free one.
    """

    def __init__(self, port: int | None = None) -> None:
        self.listening = bound_socket(port)
        self.port = int(self.listening.getsockname()[1])
        self.token = new_token()
        # Answers are small and computed in threads; what hangs does not keep Ctrl-C from ending the server.
        options: dict[str, Any] = {"log_level": "error", "access_log": False, "timeout_graceful_shutdown": 1}
        options |= {"server_header": False, "date_header": False, "proxy_headers": False}
        options |= {"lifespan": "off", "ws": "none", "http": "h11", "loop": "asyncio"}
        super().__init__(uvicorn.Config(studio_app(self.token, self.port), **options))

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


def run(port: int | None, *, opens_browser: bool, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, and open a browser if asked to."""
    server = Server(port)
    say(f"jensen studio: {server.address}  (Ctrl-C ends it)")
    if opens_browser:
        # The socket is bound, so a browser that is early only waits.
        server.listening.listen(100)
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.serve_until_stopped()
