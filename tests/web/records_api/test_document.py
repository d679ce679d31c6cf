"""docs/http-records.md: its commands print what it says, and its page works in a browser from another origin."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "http-records.md"
ADDRESS: Final = "http://127.0.0.1:9464"
SECONDS_MAX: Final = 120

pytestmark = pytest.mark.process


class Pages(BaseHTTPRequestHandler):
    """A site of its own, which has one page."""

    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to standard error."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Serve pages from an origin of their own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, site: str) -> Iterator[PageBroker]:
    settings = {"access.control.allow.origin": site, "schema.registry.listeners": "http://127.0.0.1:0"}
    broker = PageBroker(tmp_path_factory.mktemp("http"), settings)
    broker.start()
    yield broker
    broker.stop()
    assert broker.unexpected_errors() == []


def commands() -> list[tuple[str, str]]:
    """Return the commands of the document with what they print."""
    blocks = re.findall(r"```console\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return [pair for block in blocks for pair in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


def comparable(output: str, cluster_id: str) -> str:
    """Return an output without times of the present."""
    output = re.sub(r'"timestamp":"20[^"]+"', '"timestamp":"0"', output.replace(cluster_id, "CLUSTER"))
    return re.sub(r'"timestamp":\d+', '"timestamp":0', output).strip()


def test_the_commands(broker: PageBroker) -> None:
    if shutil.which("curl") is None:
        pytest.fail("the commands need curl")
    cluster_id = cluster_of(broker)
    documented = commands()
    assert len(documented) > 15
    for command, output in documented:
        run = command.replace(ADDRESS, broker.url).replace("CLUSTER", cluster_id).replace("curl ", "curl -sS ")
        done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        if "--max-time" not in command:
            assert (done.returncode, done.stderr) == (0, ""), command
        if output:
            assert comparable(done.stdout, cluster_id) == comparable(output, cluster_id), command
        else:
            assert '"error' not in done.stdout


def cluster_of(broker: PageBroker) -> str:
    with urlopen(f"{broker.url}/v3/clusters") as answer:
        return str(json.load(answer)["data"][0]["cluster_id"])


def test_the_page_in_a_browser(broker: PageBroker, site: str) -> None:
    [page] = re.findall(r"```html\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    Pages.page = page.replace(ADDRESS, broker.url).replace("/orders/", "/shown/").encode()
    subprocess.run(
        ["curl", "-sS", "--json", '{"name": "shown"}', f"{broker.url}/api/topics"], check=True, capture_output=True
    )
    try:
        with opened_browser(broker) as browser:
            show(browser, site)
            browser.wait_for("c-7: 12.5")
    except BrowserMissing as missing:
        pytest.fail(str(missing))


SOCKET: Final = """<p id="end">waiting</p><script>
const socket = new WebSocket("ADDRESS/api/topics/socket/records?from=earliest".replace("http", "ws"));
const seen = [];
socket.onmessage = event => {
  seen.push(...JSON.parse(event.data).records.map(record => record.value));
  document.getElementById("end").textContent = seen.join(" ");
};
socket.onopen = () => fetch("ADDRESS/api/topics/socket/records", {
  method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({value: "new"}),
});
</script>"""


def test_a_websocket_in_a_browser(broker: PageBroker, site: str) -> None:
    topics = f"{broker.url}/api/topics"
    for path, body in ((topics, '{"name": "socket"}'), (f"{topics}/socket/records", '{"value": "old"}')):
        subprocess.run(["curl", "-sS", "--json", body, path], check=True, capture_output=True)
    Pages.page = SOCKET.replace("ADDRESS", broker.url).encode()
    try:
        with opened_browser(broker) as browser:
            show(browser, site)
            browser.wait_for("old new")
    except BrowserMissing as missing:
        pytest.fail(str(missing))


def show(browser: Browser, site: str) -> None:
    browser.driver.get(f"{site}/")
