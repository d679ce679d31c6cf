"""Rows of an answer that another program wrote, found by what they are about.

A broker may answer with other rows than a request was about: with too few, with several about the same, or about
something else. Code that unpacks `[row] = answer.results` believes it. These functions raise a KafkaError that names
the broker and the API, and leave out rows that the request was not about.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from pylogbroker.errors import KafkaError

K = TypeVar("K", bound=Hashable)


class WrongRows(KafkaError):
    """Answer without the rows of a request; whether the broker did what it was asked for is not known."""


def sole_row(answer: Any, path: str, broker: object, **fields: object) -> Any:
    """Return the row whose fields have these values: `path` names the lists, such as "topics.partitions".

    Raise WrongRows if there is none, or more than one. `broker` is the number or the address of the one that answered.
    """

    def is_meant(row: Any) -> bool:
        return all(getattr(row, name) == value for name, value in fields.items())

    rows = [chain[-1] for chain in _chains((answer,), path) if is_meant(chain[-1])]
    if len(rows) != 1:
        about = ", ".join(f"{name} {value!r}" for name, value in fields.items())
        raise _wrong(answer, broker, f"{len(rows)} results{about and f' for {about}'} instead of 1")
    return rows[0]


def rows_by_key(answer: Any, path: str, broker: object, keys: Iterable[K], key_of: Callable[..., K]) -> dict[K, Any]:
    """Return the row of each key, in the order of the keys; `key_of` gets a row, after the rows that it is in.

    Raise WrongRows if a key has no row, or more than one.
    """
    requested = dict.fromkeys(keys)
    rows: dict[K, Any] = dict(requested)
    for chain in _chains((answer,), path):
        key = key_of(*chain[1:])
        if key in requested:
            if rows[key] is not None:
                raise _wrong(answer, broker, f"2 results for {_text(key)} instead of 1")
            rows[key] = chain[-1]
    for key, row in rows.items():
        if row is None:
            raise no_row(answer, broker, key)
    return rows


def rows_in_order(answer: Any, path: str, broker: object, count: int) -> list[Any]:
    """Return as many rows as a request had, which have no other key than their place; raise WrongRows."""
    rows = [chain[-1] for chain in _chains((answer,), path)]
    if len(rows) != count:
        raise _wrong(answer, broker, f"{len(rows)} results instead of {count}")
    return rows


def no_row(answer: Any, broker: object, key: object) -> WrongRows:
    """Return the error of an answer that says nothing about a key of the request."""
    return _wrong(answer, broker, f"no result for {_text(key)}")


def _chains(chain: tuple[Any, ...], path: str) -> Iterator[tuple[Any, ...]]:
    """Yield each row of the last list, after the rows that it is in."""
    name, _, rest = path.partition(".")
    for row in getattr(chain[-1], name) or ():
        if rest:
            yield from _chains((*chain, row), rest)
        else:
            yield *chain, row


def _text(key: object) -> str:
    return "-".join(map(str, key)) if isinstance(key, tuple) else repr(key)


def _wrong(answer: Any, broker: object, rows: str) -> WrongRows:
    api = type(answer).__name__.removesuffix("Response")
    who = f"broker {broker}" if isinstance(broker, int) else broker
    return WrongRows(f"{who} answered {api} with {rows}: this is a fault of that broker, so look at its log")
