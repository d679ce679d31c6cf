"""The cache of what was read: bounded, the least recently used goes first, one read for all who wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pylogbroker.storage.remote.chunk_cache import ChunkCache


def unexpected() -> tuple[str, int]:
    raise AssertionError("it was cached")


def test_the_least_recently_used_goes() -> None:
    cache = ChunkCache(10)
    for key in "abc":
        cache.get(key, lambda key=key: (key, 4))  # type: ignore[misc]
        if key == "b":
            assert cache.get("a", unexpected) == "a"
    assert (cache.has("a"), cache.has("b"), cache.has("c"), cache.held) == (True, False, True, 8)


def test_a_value_above_the_limit_is_not_kept() -> None:
    cache = ChunkCache(10)
    assert cache.get("a", lambda: ("a", 11)) == "a"
    assert (cache.has("a"), cache.held) == (False, 0)


def test_a_failed_read_is_repeated() -> None:
    cache = ChunkCache(10)

    def fail() -> tuple[str, int]:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        cache.get("a", fail)
    assert cache.get("a", lambda: ("a", 1)) == "a"


@pytest.mark.parametrize("fails", [False, True])
def test_callers_of_the_same_value_share_a_read(fails: bool) -> None:
    cache, begun, may_end, reads = ChunkCache(10), threading.Event(), threading.Event(), []

    def load() -> tuple[str, int]:
        reads.append(1)
        begun.set()
        assert may_end.wait(10)
        if fails:
            raise OSError("away")
        return "value", 1

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(cache.get, "a", load)
        assert begun.wait(10)
        others = [threads.submit(cache.get, "a", load) for _ in range(3)]
        if fails:
            cache._loads["a"].done.is_set()
        may_end.set()
        for future in (first, *others):
            if not fails:
                assert future.result(10) == "value"
            else:
                assert isinstance(future.exception(10), OSError)
    if not fails:
        assert len(reads) == 1
