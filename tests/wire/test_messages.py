"""The table of messages: whose key is whose, and that nobody waits for those that are not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pylogbroker.wire import SUPPORTED, messages


def test_each_key_gives_its_own_messages() -> None:
    assert len(SUPPORTED) > 30
    assert all(key == request.api_key == response.api_key for key, (request, response) in SUPPORTED.items())
    assert len({kind for pair in SUPPORTED.values() for kind in pair}) == 2 * len(SUPPORTED)


def test_every_module_of_messages_is_found() -> None:
    modules = {path.stem for path in Path(messages.__file__).parent.glob("*.py")} - {"__init__"}
    assert {request.__module__.rpartition(".")[2] for request, _ in SUPPORTED.values()} == modules
    assert list(SUPPORTED) == sorted(SUPPORTED)


def test_declarations_are_those_of_the_messages() -> None:
    for key, (request, response) in SUPPORTED.items():
        declared = SUPPORTED.declared[key]
        assert (f"{declared.name}Request", f"{declared.name}Response") == (request.__name__, response.__name__)
        assert declared.versions == request.versions == response.versions


def test_unknown_apis_are_absent() -> None:
    assert SUPPORTED.get(999) is None
    assert 999 not in SUPPORTED


def test_only_used_messages_are_imported() -> None:
    code = (
        "import sys\nfrom pylogbroker.wire import request_codec\nrequest_codec(18, 0)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('pylogbroker.wire.messages.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pylogbroker.wire.messages.api_versions"]
