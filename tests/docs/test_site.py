"""The site that mkdocs builds: no warnings, working links, and a reference of all public names."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.docs.site import ROOT, public_names

REFERENCES = re.findall(r"reference/([a-z_.]+)\.md", (ROOT / "mkdocs.yml").read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; `strict: true` lets the build fail with each warning and broken link."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(directory)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return directory


def test_each_public_name_is_in_the_reference(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    for package in REFERENCES:
        path = ROOT.joinpath("pylogbroker", *package.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        names = {f"pylogbroker.{package}.{name}" for name in public_names(ast.parse(path.read_text()))}
        assert names - documented == set(), f"{package}: these have no docstring"


def test_names_of_pages_are_links(site: Path) -> None:
    assert '<a href="security.html"><code>docs/security.md</code></a>' in (site / "index.html").read_text()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert loaded == [], page.name
