"""Who may ask the server: pages that it served itself, with the token of its address.

Another page in the same browser can send requests to 127.0.0.1, and by DNS rebinding even under its own name. So every
address starts with a random token, the Host must be this server, and an Origin must be this server's.
"""

from __future__ import annotations

import secrets
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jensen.studio.answers import as_error

# The most bytes of a request.
MOST_BYTES = 1_000_000
TOO_LARGE = f"the request is larger than {MOST_BYTES} bytes"
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def new_token() -> str:
    """Nobody guesses it: 192 random bits."""
    return secrets.token_urlsafe(24)


class Guard:
    """Passes requests on only if they carry the token and come from the page of this server.

    Args:
        app: what answers them.
        token: the first part of every path.
        port: of this server.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            # Nothing here speaks WebSocket.
            return await send({"type": "websocket.close", "code": 1008})
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self.refusal(scope, headers)
        if refusal is not None:
            return await refusal(scope, receive, with_headers(send))
        rest = scope["path"].removeprefix(f"/{self.token}")
        scope = dict(scope) | {"path": rest, "raw_path": rest.encode()}
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MOST_BYTES:
                raise HTTPException(413, TOO_LARGE)
            return message

        await self.app(scope, counted, with_headers(send))

    def refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """The answer to a request that is not passed on."""
        if headers.get("host", "").lower() not in self.hosts:
            return as_error("this host name is not served; open the address that jensen printed", 403)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return as_error("requests from other pages are refused", 403)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return as_error("requests from other pages are refused", 403)
        token = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return as_error("wrong token; open the address that jensen printed", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return as_error(TOO_LARGE, 413)
        return None


def with_headers(send: Send) -> Send:
    """Answers that no other page may read, frame or keep."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: list[tuple[bytes, Any]] = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = dict(message) | {"headers": [*message.get("headers", []), *own]}
        await send(message)

    return sent
