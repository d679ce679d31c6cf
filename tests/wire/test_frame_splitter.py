"""Frames cut out of a stream, however it is cut into pieces."""

from __future__ import annotations

import random
import re
import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker import system
from pylogbroker.system import portable
from pylogbroker.wire import frame_splitter
from pylogbroker.wire.frame_splitter import FrameSplitter

MEGABYTE = 1 << 20
FRAMES = st.lists(st.binary(max_size=40), max_size=12)


def _stream(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def _receive(splitter: FrameSplitter, stream: bytes, sizes: list[int]) -> list[bytes]:
    """Play the transport: into the frame's own buffer where there is one, in pieces of the given sizes."""
    got: list[bytes] = []
    position = 0
    step = 0
    while position < len(stream):
        size = sizes[step % len(sizes)]
        step += 1
        rest = splitter.rest()
        if rest is None:
            piece = stream[position : position + size]
            got += map(bytes, splitter.split(piece))
        else:
            piece = stream[position : position + min(size, len(rest))]
            rest[: len(piece)] = piece
            frame = splitter.filled(len(piece))
            if frame is not None:
                got.append(bytes(frame))
        del rest
        position += len(piece)
    return got


@given(FRAMES, st.lists(st.integers(1, 64), min_size=1, max_size=5))
def test_every_way_of_cutting_gives_the_same_frames(frames: list[bytes], sizes: list[int]) -> None:
    splitter = FrameSplitter(1000)
    assert _receive(splitter, _stream(frames), sizes) == frames
    assert splitter.held == 0


@given(FRAMES, st.integers(1, 64))
def test_splitting_without_buffers_gives_the_same_frames(frames: list[bytes], size: int) -> None:
    splitter = FrameSplitter(1000)
    stream = _stream(frames)
    pieces = [stream[position : position + size] for position in range(0, len(stream), size)]
    assert [bytes(frame) for piece in pieces for frame in splitter.split(piece)] == frames
    assert splitter.held == 0


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_an_invalid_length_ends_the_stream_after_earlier_frames(length: int) -> None:
    splitter = FrameSplitter(100)
    frames = splitter.split(_stream([b"good"]) + struct.pack(">i", length) + b"rest")
    assert [bytes(frame) for frame in frames] == [b"good"]
    assert re.search("negative|socket.request.max.bytes=100", str(splitter.violation))


def test_an_announced_large_frame_holds_only_received_bytes() -> None:
    splitter = FrameSplitter(2**31 - 1)
    assert splitter.split(struct.pack(">i", 2**30) + b"abc") == []
    assert splitter.held == 3


def test_the_buffer_of_a_large_frame_grows_with_received_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_splitter, "growing_memory", portable.growing_memory)
    splitter = FrameSplitter(2**31 - 1)
    splitter.split(struct.pack(">i", 2**30) + b"abc")
    sizes = []
    for _ in range(4):
        rest = splitter.rest()
        assert rest is not None
        sizes.append(len(rest))
        splitter.filled(len(rest))
        del rest
    assert sizes == [2 * MEGABYTE - 3, 2 * MEGABYTE, 4 * MEGABYTE, 8 * MEGABYTE]
    assert splitter.held == 16 * MEGABYTE


@pytest.mark.parametrize("size", [1, 2 * MEGABYTE, 2 * MEGABYTE + 1, 5 * MEGABYTE, 16 * MEGABYTE])
def test_large_frames_are_whole(size: int) -> None:
    frames = [random.Random(size).randbytes(size), b"small", b"x" * (size + 1)]
    stream = _stream(frames)
    assert _receive(FrameSplitter(2**31 - 1), stream, [300_000, 7, 200_000]) == frames
    splitter = FrameSplitter(2**31 - 1)
    pieces = [stream[position : position + 3_000_001] for position in range(0, len(stream), 3_000_001)]
    assert [bytes(frame) for piece in pieces for frame in splitter.split(piece)] == frames


def test_memory_of_an_incomplete_large_frame_is_released() -> None:
    splitter = FrameSplitter(2**31 - 1)
    splitter.split(struct.pack(">i", 50 * MEGABYTE) + b"x" * (10 * MEGABYTE + 1))
    memory = splitter._growing
    free = splitter.forget()
    assert free is not None
    assert (splitter.held, splitter.rest()) == (0, None)
    free()
    assert memory is not None
    assert len(memory) == 0


@pytest.mark.parametrize("system", [portable, system])
def test_a_recorded_stack_may_keep_the_buffer_of_a_large_frame(
    system: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_splitter, "growing_memory", system.growing_memory)
    splitter = FrameSplitter(2**31 - 1)
    splitter.split(struct.pack(">i", 9 * MEGABYTE) + b"x")
    kept = []
    while splitter.held < 8 * MEGABYTE:
        rest = splitter.rest()
        assert rest is not None
        rest = rest[:MEGABYTE]
        kept.append(rest)
        rest[:] = bytes(len(rest))
        assert splitter.filled(len(rest)) is None
    free = splitter.forget()
    assert free is not None
    free()
    assert all(len(rest) for rest in kept)


def test_a_plain_buffer_is_freed_by_the_caller_unless_it_is_small() -> None:
    splitter = FrameSplitter(2**31 - 1)
    splitter.split(struct.pack(">i", MEGABYTE) + b"x")
    buffer = splitter._buffer
    assert buffer is not None
    free = splitter.forget()
    assert free is not None
    assert len(buffer) == MEGABYTE
    free()
    with pytest.raises(ValueError, match="released"):
        len(buffer)
    splitter.split(struct.pack(">i", 100_000) + b"x")
    assert splitter.forget() is None
