"""Jute's values: bytes written by hand, as ZooKeeper's `BinaryInputArchive` reads them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pylogbroker
from pylogbroker.tree import jute
from pylogbroker.tree.jute import Malformed, Reader

ROOT = Path(pylogbroker.__file__).parent


def test_values_follow_each_other() -> None:
    reader = Reader(b"skipped" + bytes.fromhex("fffffffe 00000000ffffffff 01 00000002 6869 00000003 e282ac"), 7)
    assert (reader.integer(), reader.long(), reader.boolean()) == (-2, 2**32 - 1, True)
    assert (reader.buffer(), reader.string(), reader.is_at_end) == (b"hi", "€", True)


def test_null_is_no_buffer_an_empty_string_and_an_empty_vector() -> None:
    reader = Reader(b"\xff\xff\xff\xff" * 3)
    assert (reader.buffer(), reader.string(), reader.vector(reader.long)) == (None, "", [])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0\0", "4 bytes are expected at byte 0, but only 3 follow"),
        (b"\xff\xff\xff\xfe", "invalid length -2 before byte 4"),
        (b"\x7f\xff\xff\xffabc", "2147483647 bytes are expected at byte 4, but only 3 follow"),
        (b"\0\0\0\2\xff\xfe", "invalid UTF-8 before byte 6"),
    ],
)
def test_invalid_bytes_are_named_with_their_place(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        Reader(data).string()


def test_written_values_are_read_again() -> None:
    data = jute.integer(-5) + jute.buffer(None) + jute.vector([jute.string("a"), jute.string("é")]) + jute.boolean(True)
    reader = Reader(data)
    assert (reader.integer(), reader.buffer()) == (-5, None)
    assert (reader.vector(reader.string), reader.boolean(), reader.is_at_end) == (["a", "é"], True, True)


def test_one_module_reads_jute() -> None:
    """Other modules of trees and their files have no number formats of their own."""
    packages = [ROOT / "tree", ROOT / "offline" / "zookeeper"]
    paths = [path for package in packages for path in package.rglob("*.py")]
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(each.name == "struct" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "struct")
    }
    assert importing == {"tree/jute.py"}
