from __future__ import annotations

import importlib.util
import sys

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.records import checksum, crc32c
from pylogbroker.records.checksum import crc32, portable_crc32c

oracle = crcmod.predefined.mkCrcFun("crc-32c")


def test_the_published_check_values() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32(b"123456789") == 0xCBF43926
    assert portable_crc32c()(b"123456789") == 0xE3069283


@given(st.binary(max_size=300), st.integers(0, 300))
def test_checksums_match_crcmod_whole_and_in_pieces(data: bytes, cut: int) -> None:
    view = memoryview(data)
    assert crc32c(view) == oracle(data)
    for function in (crc32c, portable_crc32c()):
        assert function(view[cut:], function(view[:cut])) == oracle(data)


def test_without_a_native_build_the_portable_checksum_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crc32c", None)
    spec = importlib.util.spec_from_file_location("checksum_without_native", checksum.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.crc32c is not crc32c
    assert module.crc32c(b"6789", module.crc32c(b"12345")) == 0xE3069283
