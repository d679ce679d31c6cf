"""Lines like those of a web server's access log, made from a seed: the same everywhere."""

from __future__ import annotations

import random

_PATHS = ("/", "/index.html", "/images/logo.png", "/blog/tags/puppet?flav=rss20", "/presentations/größe.html")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64; rv:25.0)", "Tiny Tiny RSS/1.11 (http://tt-rss.org/)", "-")
_DAY = "17/May/2015:{hour:02}:{minute:02}:{second:02} +0000"


def generated(count: int) -> list[bytes]:
    """So many lines, without their line feeds."""
    source = random.Random(7)
    return [_line(source, number).encode() for number in range(count)]


def _line(source: random.Random, number: int) -> str:
    host = ".".join(str(source.randrange(1, 255)) for _ in range(4))
    time = _DAY.format(hour=10 + number // 3600 % 12, minute=number // 60 % 60, second=number % 60)
    request = f'"GET {source.choice(_PATHS)} HTTP/1.1" {source.choice((200, 304, 404))} {source.randrange(200_000)}'
    return f'{host} - - [{time}] {request} "-" "{source.choice(_AGENTS)}"'
