"""The routes of the server: its page, the files of the page, and what the page asks for."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jensen.runtime.watching import Watch
from jensen.studio.answers import as_error, as_json
from jensen.studio.ask import Subject
from jensen.studio.catalogue import described, find
from jensen.studio.folder import Folder
from jensen.studio.guard import Guard
from jensen.studio.page import KINDS, html, web_files
from jensen.studio.trained import progress_of

# Requests that are computed at the same time; the others wait.
AT_ONCE = 4
VERBS: dict[str, Callable[[Subject, dict[str, Any]], Any]] = {
    "open": lambda subject, given: subject.describe(),
    "row": Subject.answer,
    "decode": Subject.decode,
    "draw": Subject.draw,
}
EXPECTED = (ValueError, TypeError, OSError, AttributeError, ImportError)


def studio_app(token: str, port: int, folder: Folder, watch: Watch | None) -> Guard:
    """All routes, behind the guard.

    Args:
        token, port: of the address.
        folder: whose files may be opened.
        watch: the fit that is shown; None if there is none.
    """
    limiter: list[CapacityLimiter] = []

    def answering(answer: Callable[[dict[str, Any], Request], Any]) -> Callable[[Request], Any]:
        """An endpoint from a function of the JSON in a request; it runs in a thread."""

        async def endpoint(request: Request) -> Response:
            try:
                given = await body_of(request)
            except ValueError as error:
                return as_error(error)
            if not limiter:
                limiter.append(CapacityLimiter(AT_ONCE))
            return await to_thread.run_sync(answered, answer, given, request, limiter=limiter[0])

        return endpoint

    def listed(given: dict[str, Any], request: Request) -> Any:
        return {"explainers": described()}

    def explained(given: dict[str, Any], request: Request) -> Any:
        explainer = find(request.path_params["name"])
        waiting = progress_of(explainer.needs)
        return {"training": waiting} if waiting else explainer.compute(given)

    def filed(given: dict[str, Any], request: Request) -> Any:
        return folder.listed() | {"given": list(folder.given), "is_watched": watch is not None}

    def asked(given: dict[str, Any], request: Request) -> Any:
        subject = folder.open(given.get("model"), given.get("table"))
        verb = request.path_params["verb"]
        if verb not in VERBS:
            raise ValueError(f"there is no question {verb[:40]!r}; there are {', '.join(VERBS)}")
        return VERBS[verb](subject, given)

    def watched(given: dict[str, Any], request: Request) -> Any:
        if watch is None:
            raise ValueError("no fit is watched here; start one with: jensen fit ... --watch")
        return watch.since(given.get("seen", 0))

    routes = [
        Route("/", front),
        Route("/web/{path:path}", web_file),
        Route("/api/explainers", answering(listed)),
        Route("/api/explain/{name}", answering(explained), methods=["POST"]),
        Route("/api/files", answering(filed)),
        Route("/api/ask/{verb}", answering(asked), methods=["POST"]),
        Route("/api/watch", answering(watched), methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: refused}), token, port)


def answered(answer: Callable[[dict[str, Any], Request], Any], given: dict[str, Any], request: Request) -> Response:
    """The answer, or what was wrong, in one line."""
    try:
        return as_json(answer(given, request))
    except EXPECTED as error:
        return as_error(error)
    except Exception as error:
        return as_error(f"internal error: {type(error).__name__}: {error}", 500)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in a request; GET has none."""
    if request.method != "POST":
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ValueError("the request must be of the type application/json")
    text = await request.body()
    try:
        given = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the request is not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("the request must be a JSON object")
    return given


async def front(request: Request) -> Response:
    nonce = secrets.token_urlsafe(16)
    policy = f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
    policy += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return Response(html(nonce), media_type="text/html", headers={"content-security-policy": policy})


async def web_file(request: Request) -> Response:
    """A file of the page, from the list of those that come with the package."""
    path = request.path_params["path"]
    if path not in web_files():
        return as_error(f"there is no {path[:60]}", 404)
    return Response(web_files()[path], media_type=KINDS[path.rpartition(".")[2]])


async def refused(request: Request, error: Exception) -> Response:
    """What routes and the guard refuse."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return as_error(
        "there is nothing at this address" if status in (404, 405) else str(getattr(error, "detail", "")), status
    )
