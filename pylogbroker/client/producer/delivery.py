"""Deferreds of sent records, fired batch by batch.

Most programs look at few of their records' Deferreds. So `send` returns one without state of its own:

    unclaimed    has the batch's `DeliveryReport` and its place there; costs nothing when the batch is done
    claimed      somebody has used it: an ordinary Deferred, which the report fires, at once if the batch is done

The first access to anything that a Deferred keeps claims it: a callback, `called`, `result`, or an `await`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.producer.model import RecordMetadata

log = Logger()

Results = Sequence[RecordMetadata] | Sequence[BaseException]


class RecordDeferred(Deferred[RecordMetadata]):
    """Deferred of a record's metadata. `send` makes it without `__init__`, and sets its two attributes.

    It is unclaimed while it has them. This needs nothing of what `Deferred` keeps, which differs between versions.
    """

    report: DeliveryReport
    place: int

    def __getattr__(self, name: str) -> Any:
        """Claim the Deferred: it lacks an attribute that `Deferred.__init__` or a result sets."""
        if "report" not in self.__dict__:
            raise AttributeError(name)
        self._claim()
        return getattr(self, name)

    def _claim(self) -> None:
        report, place = self.__dict__.pop("report"), self.__dict__.pop("place")
        Deferred.__init__(self)
        report.claim(self, place)

    @property
    def called(self) -> bool:
        """True once the record has a result."""
        if "report" in self.__dict__:
            self._claim()
        return bool(self.__dict__.get("_has_result"))

    @called.setter
    def called(self, value: bool) -> None:
        self.__dict__["_has_result"] = value


@attrs.define(eq=False, repr=False)
class DeliveryReport:
    """Results of the records of one batch, and of the parts into which it was split."""

    _settled: list[tuple[int, Results]] = attrs.Factory(list)
    _claimed: dict[int, Deferred[RecordMetadata]] = attrs.Factory(dict)
    _unseen: int = 0  # failed records of which nobody has used the Deferred
    _errors: list[BaseException] = attrs.Factory(list)  # the first of each part

    def claim(self, deferred: Deferred[RecordMetadata], place: int) -> None:
        for first, results in self._settled:
            if first <= place < first + len(results):
                result = results[place - first]
                self._unseen -= isinstance(result, BaseException)
                _fire(deferred, result)
                return
        self._claimed[place] = deferred

    def put(self, first: int, results: Results, count: int) -> None:
        """Settle the places from `first` on; `count` of these records have a `RecordDeferred`."""
        self._settled.append((first, results))
        places = sorted(place for place in self._claimed if first <= place < first + len(results))
        if isinstance(results[0], BaseException):
            self._unseen += count - len(places)
            self._errors.append(results[0])
        for place in places:
            _fire(self._claimed.pop(place), results[place - first])

    def __del__(self) -> None:
        """Log failures that nobody has seen, as Twisted does for each Deferred."""
        if self._unseen > 0:
            text = "{count} records were not sent, and nobody handled their errors, such as this one"
            log.failure(text, Failure(self._errors[-1]), count=self._unseen)


def _fire(deferred: Deferred[RecordMetadata], result: RecordMetadata | BaseException) -> None:
    if isinstance(result, BaseException):
        deferred.errback(result)
    else:
        deferred.callback(result)
