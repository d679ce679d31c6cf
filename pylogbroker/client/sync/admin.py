"""The admin client without Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial, wraps
from typing import Any

from pylogbroker.client.admin.client import AdminClient as AsyncAdminClient
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient


class AdminClient(BlockingClient[AsyncAdminClient]):
    """Admin client; takes the arguments and settings of `pylogbroker.client.AdminClient`.

    Its parts, such as `topics`, have the same methods. Each waits for its result, and takes `timeout=` in seconds.
    """

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncAdminClient, bootstrap, **options), timeout)

    def __getattr__(self, noun: str) -> BlockingPart:
        if not isinstance(vars(AsyncAdminClient).get(noun), cached_property):
            raise AttributeError(f"{self._name} has no part {noun!r}")
        return BlockingPart(noun, getattr(self._client, noun), self._call)

    def _trouble(self) -> str:
        return self._client.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.close()


class BlockingPart:
    """Methods of a part of the admin client, each waiting for its result."""

    def __init__(self, noun: str, part: object, call: Callable[..., Any]) -> None:
        self._noun = noun
        self._part = part
        self._wait = call

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        method = getattr(self._part, verb)

        @wraps(method)
        def call(*arguments: Any, timeout: float | None = None, **options: Any) -> Any:
            return self._wait(f"{self._noun}.{verb}", partial(method, *arguments, **options), timeout)

        return call
