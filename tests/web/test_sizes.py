"""Sizes of what a browser loads: the first page, and everything."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import urlsplit

from tests.web.test_pages import PageTests

FIRST_PAGE_BYTES_MAX = 60_000
STATIC_BYTES_MAX = 200_000


def test_all_static_files() -> None:
    sizes = {file.name: len(file.read_bytes()) for file in files("pylogbroker.web").joinpath("static").iterdir()}
    assert sum(sizes.values()) <= STATIC_BYTES_MAX, sizes


class TestFirstPage(PageTests):
    def test_the_first_page_and_what_it_loads(self) -> None:
        for number in range(30):
            self.node.create(f"topic-{number}")
        self.commit("readers", "topic-1", 0)
        page = self.show("/")
        loaded = {link for link in page.links if urlsplit(link).path.endswith((".css", ".js", ".svg"))} | {"/parts.js"}
        self.assertGreaterEqual(len(loaded), 7)
        sizes = {path: len(self.connect().get(path).body.encode()) for path in ("/", *loaded)}
        self.assertLessEqual(sum(sizes.values()), FIRST_PAGE_BYTES_MAX, sizes)
