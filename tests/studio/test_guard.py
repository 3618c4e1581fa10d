"""The server answers its own page and nobody else, and no answer says more than it should."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from jensen.studio.guard import MOST_BYTES


def test_it_listens_on_the_loopback_address_only(server):
    assert server.listening.getsockname()[0] == "127.0.0.1"


def test_addresses_differ_and_cannot_be_guessed(server):
    from jensen.studio.guard import new_token

    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    # 24 bytes in base64.
    assert {len(token) for token in tokens} == {32}
    assert server.token in server.address


def test_the_page_and_its_files_come_with_the_token(client):
    assert client.ask("")[0] == 200
    assert client.headers["content-type"].startswith("text/html")
    assert "script-src 'self' 'nonce-" in client.headers["content-security-policy"]
    assert client.headers["referrer-policy"] == "no-referrer"
    assert client.ask("web/main.js")[0] == 200
    assert client.headers["content-type"].startswith("text/javascript")
    assert client.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["", "web/main.js", "api/explainers", "api/explain/sigmoid"])
@pytest.mark.parametrize("token", ["", "wrong", "%00", "é", "a" * 5000])
def test_a_wrong_token_is_refused(client, path, token):
    token = "%C3%A9" if token == "é" else token
    status, message = client.error(path, token=token)
    assert status == 403
    assert "wrong token" in message


def test_a_part_of_the_token_is_not_the_token(client, server):
    assert client.error("", token=server.token[:-1])[0] == 403
    assert client.error("", token=server.token + "a")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""]
)
def test_another_host_is_refused(client, host):
    """DNS rebinding: the browser believes that this server is evil.example."""
    status, message = client.error("", headers={"host": host})
    assert status == 403
    assert "host name" in message


def test_its_two_names_are_known(client, server):
    for name in ("127.0.0.1", "localhost"):
        assert client.ask("", headers={"host": f"{name}:{server.port}"})[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_another_origin_is_refused(client, origin):
    status, message = client.error("api/explain/sigmoid", {}, headers={"origin": origin})
    assert status == 403
    assert "other pages" in message
    assert "access-control-allow-origin" not in client.headers


def test_its_own_origin_is_served(client, server):
    assert client.ask("api/explain/sigmoid", {}, headers={"origin": f"http://127.0.0.1:{server.port}"})[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_from_another_page_is_refused(client, site):
    assert client.error("", headers={"sec-fetch-site": site})[0] == 403


@pytest.mark.parametrize("length", [MOST_BYTES + 1, 10**15])
def test_a_large_body_is_refused_before_it_is_read(client, length):
    status, message = client.error("api/explain/sigmoid", b"{}", headers={"content-length": str(length)})
    assert status == 413
    assert str(MOST_BYTES) in message


def test_a_large_body_in_pieces_is_refused(server):
    """Without a length in front, bytes are counted."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        head = f"POST /{server.token}/api/explain/sigmoid HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"%x\r\n%s\r\n" % (50_000, b" " * 50_000)
        try:
            for _ in range(MOST_BYTES // 50_000 + 2):
                raw.sendall(piece)
        except OSError:
            pass  # the server has hung up
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "path",
    [
        "web/../app.py",
        "web/..%2fapp.py",
        "web/%2e%2e/app.py",
        "web//etc/passwd",
        "web/....//app.py",
        "web/views/../../guard.py",
        "web/index.html%00.js",
        "web/",
        "web/..\\app.py",
        "nothing",
    ],
)
def test_only_files_of_the_page_are_served(client, path):
    status, text = client.ask(path)
    assert status == 404
    assert "import" not in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"[1]", "JSON object"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"\x80\x04K\x01.", "not JSON"),
        ({"x": "3"}, "must be a number"),
        ({"x": 99}, "from -6 to 6"),
        ({"x": True}, "must be a number"),
        (b'{"x": NaN}', "must be a number"),
        (b'{"x": 1e999}', "must be a number"),
        ({"depth": 3}, "has no control 'depth'"),
    ],
)
def test_wrong_input_is_an_error_of_one_line(client, body, message):
    status, found = client.error("api/explain/sigmoid", body)
    assert status == 400
    assert message in found


def test_only_json_is_read(client):
    """A form of another page can send text, but not this type without asking first."""
    status, message = client.error("api/explain/sigmoid", b"{}", headers={"content-type": "text/plain"})
    assert status == 400
    assert "application/json" in message


def test_an_error_in_the_library_has_no_traceback(client, monkeypatch):
    from jensen.studio import app

    def fail(name):
        raise KeyError("line one\nline two")

    monkeypatch.setattr(app, "find", fail)
    status, message = client.error("api/explain/sigmoid", {})
    assert status == 500
    assert message.startswith("internal error: KeyError")


def test_what_is_not_there_is_not_found(client):
    assert client.error("api/explain/sigmoid")[0] == 405
    assert "no explainer 'x'" in client.error("api/explain/x", {})[1]


def test_eight_clients_at_once_get_their_own_answers(client):
    def ask(x):
        return client.values("api/explain/sigmoid", {"x": x})["x"]

    xs = [i / 2 - 6 for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, xs)) == xs


def test_answers_have_no_nan():
    import numpy as np

    from jensen.studio.answers import plain

    given = {"a": np.array([1.0, np.nan, np.inf]), "b": (np.float32(0.5), None, np.int64(3)), 1: float("nan")}
    assert json.dumps(plain(given), allow_nan=False) == '{"a": [1.0, null, null], "b": [0.5, null, 3], "1": null}'


def test_nothing_is_unpickled():
    """Requests are JSON, models are safetensors: no module of the studio can load a pickle."""
    from pathlib import Path

    import jensen.studio

    for path in Path(jensen.studio.__file__).parent.rglob("*.py"):
        assert not {"pickle", "joblib", "torch.load", "eval(", "exec("} & {
            word for word in ("pickle", "joblib", "torch.load", "eval(", "exec(") if word in path.read_text()
        }
