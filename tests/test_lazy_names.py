"""Packages whose names are imported on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = ("client", "client.admin", "client.sync", "config", "spark", "testing")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_imported(package: str) -> None:
    module = import_module(f"pylogbroker.{package}")
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    assert set(module._MODULES) <= set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=rf"^module 'pylogbroker\.{package}' has no attribute 'nothing'$"):
        _ = import_module(f"pylogbroker.{package}").nothing


def test_a_name_is_imported_on_first_use() -> None:
    code = "import sys, pylogbroker.client.admin; assert 'pylogbroker.client.admin.acls' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
