"""Who may ask the server: browsers that opened one of its addresses, and in them its own page only.

Another page in the same browser can send requests to 127.0.0.1, and by DNS rebinding even under its own name. So an
address has a random token, which works once: the browser gets a cookie for it and goes on to the page, whose address
opens nothing without the cookie. A browser sends cookies of 127.0.0.1 to all ports, so this one belongs to a random
path. The Host must be this server, and an Origin must be this server's.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jensen.studio.answers import as_error

COOKIE = "jensen-studio"
# The most bytes of a request.
MOST_BYTES = 1_000_000
TOO_LARGE = f"the request is larger than {MOST_BYTES} bytes"
WRONG_TOKEN = "wrong token; open the address that jensen printed: it works once, so start jensen again for another"
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
    """Passes requests on only if they carry the cookie and come from the page of this server.

    Args:
        app: what answers them.
        port: of this server.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        # The path of the page, the value of its cookie, and the tokens that nobody has used yet.
        self.path, self.cookie, self.unused = new_token(), new_token(), set[str]()
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())

    def invitation(self) -> str:
        """A path that opens the page once."""
        token = new_token()
        self.unused.add(token)
        return f"{token}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            # Nothing here speaks WebSocket.
            return await send({"type": "websocket.close", "code": 1008})
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self.refusal(scope, headers) or self.entry(scope, headers)
        if answer is not None:
            return await answer(scope, receive, with_headers(send))
        rest = scope["path"].removeprefix(f"/{self.path}")
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
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return as_error(TOO_LARGE, 413)
        return None

    def entry(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """None for the page's own requests, the way to the page for a token of an address, and a refusal otherwise."""
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        is_known = same(cookie_in(headers.get("cookie", "")), self.cookie)
        if is_known and same(first, self.path):
            return None
        found = next((token for token in self.unused if same(first, token)), None)
        if found is None or rest or scope["method"] != "GET":
            return as_error(WRONG_TOKEN, 403)
        self.unused.discard(found)
        answer = RedirectResponse(f"/{self.path}/", status_code=303)
        answer.set_cookie(COOKIE, self.cookie, path=f"/{self.path}/", httponly=True, samesite="strict")
        return answer


def same(given: str, secret: str) -> bool:
    """Whether they are equal, in a time that does not say how much of them is."""
    return secrets.compare_digest(given.encode(), secret.encode())


def cookie_in(text: str) -> str:
    """The value of our cookie in a header; empty without it."""
    try:
        found = SimpleCookie(text)
    except CookieError:
        return ""
    return found[COOKIE].value if COOKIE in found else ""


def with_headers(send: Send) -> Send:
    """Answers that no other page may read, frame or keep."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: list[tuple[bytes, Any]] = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = dict(message) | {"headers": [*message.get("headers", []), *own]}
        await send(message)

    return sent
