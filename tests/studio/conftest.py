"""A server for the tests of the page, and a way to send it any request."""

import http.client
import json
import shutil

import pytest

pytest.importorskip("uvicorn", reason="the extra studio is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
QUIET = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]


class Client:
    """Sends requests to a server as they are, with headers that a browser would not allow."""

    def __init__(self, server):
        self.server = server

    def ask(self, path, body=None, *, method=None, token=None, headers=None):
        """The status and the text of the answer; `path` follows the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if body is None else {"content-type": "application/json"}
        where = f"/{self.server.token if token is None else token}/{path}"
        connection.request(method or ("GET" if body is None else "POST"), where, data, sent | (headers or {}))
        answer = connection.getresponse()
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def values(self, path, body=None):
        """The JSON of a good answer."""
        status, text = self.ask(path, body)
        assert status == 200, text
        return json.loads(text)

    def error(self, path, body=None, **options):
        """The status and the message of a refusal, which is one line."""
        status, text = self.ask(path, body, **options)
        found = json.loads(text)
        assert set(found) == {"error"}
        assert "\n" not in found["error"]
        assert "Traceback" not in text
        return status, found["error"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a model and its table, and one beside it with a file that must not be read."""
    from sklearn.datasets import load_iris

    import jensen
    from jensen.cli.studio import folder_of

    root = tmp_path_factory.mktemp("studio") / "open"
    root.mkdir()
    iris = load_iris(as_frame=True).data
    iris.to_csv(root / "iris.csv", index=False)
    jensen.GaussianMixture(3, random_state=0).fit(iris).save(root / "mixture.jensen")
    jensen.ProbabilisticPCA(2).fit(iris).save(root / "ppca.jensen")
    jensen.KMedoids(3, random_state=0).fit(iris).save(root / "medoids.jensen")
    (root.parent / "secret.csv").write_text("password\n1234\n")
    (root / "link.csv").symlink_to(root.parent / "secret.csv")
    (root / "inside.csv").symlink_to(root / "iris.csv")
    return folder_of(root, {})


@pytest.fixture(scope="session")
def server(folder):
    from jensen.studio.serve import Server, in_background

    with in_background(Server(folder)) as running:
        yield running


@pytest.fixture
def client(server):
    return Client(server)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
