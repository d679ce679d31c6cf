"""Criteria of a fault: which requests it concerns, and which elements of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Unpack, cast

import attrs

from pylogbroker.broker.coordinators.marker_sender import MARKER_CLIENT_ID
from pylogbroker.broker.coordinators.verification_sender import VERIFICATION_CLIENT_ID
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import with_fields
from pylogbroker.broker.services import Services
from pylogbroker.java.text import is_digits
from pylogbroker.testing.faults.connection_port import FaultyConnection
from pylogbroker.testing.faults.fields import ANY, GROUP, PARTITION, TOPIC, TRANSACTION, Keys, TopicNames, leaves
from pylogbroker.testing.faults.names import api_name, unknown
from pylogbroker.web.fault_port import FaultCriteria
from pylogbroker.wire.messages.fetch import FetchRequest, FetchTopic

_Predicate = Callable[[RequestContext, Any], bool]

_BROKERS_CLIENT: Final = re.compile(
    "|".join(
        (
            r"broker-\d+-(?:fetcher-\d+|page)",
            MARKER_CLIENT_ID.format(r"\d+"),
            VERIFICATION_CLIENT_ID.format(r"\d+"),
        )
    )
)


@attrs.frozen(eq=False, repr=False)
class Call:
    """A request on its way to its handler."""

    api: Api
    services: Services
    context: RequestContext
    request: Any
    connection: FaultyConnection | None = None

    @property
    def topic_names(self) -> TopicNames:
        image = self.services.metadata.image

        def name_of(topic_id: Any) -> str | None:
            topic = image.topic_by_id(topic_id)
            return None if topic is None else topic.name

        return name_of

    @property
    def whole_request(self) -> Any:
        """The request; an incremental fetch has the partitions of its session."""
        request = self.request
        if isinstance(request, FetchRequest) and request.session_epoch > 0:
            session = self.services.fetches.sessions.find(request.session_id)
            if session is not None:
                return with_fields(request, topics=_topics_of(session, request))
        return request

    @property
    def is_of_broker(self) -> bool:
        """True if another broker of the cluster has sent the request, by its client id."""
        client_id = self.context.client_id or ""
        if not self.services.config.in_cluster:
            return False
        if is_digits(client_id):  # as controllers and their callers have it
            return int(client_id) in self.services.metadata.image.brokers
        return _BROKERS_CLIENT.fullmatch(client_id) is not None

    def leaves(self) -> list[Keys]:
        return list(leaves(self.whole_request, self.context.api_version, self.topic_names))


def _topics_of(session: Any, request: FetchRequest) -> list[FetchTopic]:
    partitions = {key: requested.partition for key, requested in session.partitions.items()}
    for topic in request.topics:
        name = topic.topic_id if session.by_id else topic.topic
        partitions |= {(name, partition.partition): partition for partition in topic.partitions}
    topics: dict[Any, FetchTopic] = {}
    for (name, _), partition in partitions.items():
        if name not in topics:
            topics[name] = FetchTopic(topic_id=name) if session.by_id else FetchTopic(topic=name)
        topics[name].partitions.append(partition)
    return list(topics.values())


class RequestSender(StrEnum):
    """Senders that a fault concerns: brokers of a cluster ask each other, too."""

    CLIENTS = "clients"
    BROKERS = "brokers"
    ANY = "any"


class CriteriaFields(FaultCriteria, total=False):
    """Conditions on requests, as tests write them."""

    when: _Predicate | None


_ROLES: Final = (TOPIC, PARTITION, GROUP, TRANSACTION)


def check_names(given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise ValueError for an unknown criterion; `others` are names that it may have been meant to be."""
    for name in given:
        if name not in CriteriaFields.__annotations__:
            raise unknown("criterion", name, [*CriteriaFields.__annotations__, *others])


@attrs.frozen
class Criteria:
    """Conditions on a request; None is no condition. `elements` are conditions on its elements, by their role.

    Without `sender`, a request of another broker matches only if `client_id` names that one's.
    """

    api: int | None = None
    elements: Mapping[str, Any] = attrs.field(factory=dict)
    broker: int | None = None
    client_id: str | None = None
    principal: str | None = None
    sender: RequestSender | None = None
    when: _Predicate | None = None

    @classmethod
    def of(cls, api: int | None, **given: Unpack[CriteriaFields]) -> Criteria:
        """Raise ValueError for an unknown criterion; None is no condition."""
        check_names(given)
        conditions = {name: value for name, value in given.items() if value is not None}
        elements = {role: conditions.pop(role) for role in _ROLES if role in conditions}
        sender = conditions.get("sender")
        if sender is not None:
            if sender not in tuple(RequestSender):
                raise unknown("sender", str(sender), [member.value for member in RequestSender])
            conditions["sender"] = RequestSender(str(sender))
        return cls(api, elements, **cast(Any, conditions))

    def match(self, call: Call) -> bool:
        context = call.context
        return (
            self.api in (None, call.api.key)
            and self.client_id in (None, context.client_id)
            and self.principal in (None, context.principal)
            and self._admits_sender(call)
            and (self.broker is None or call.connection is None or self.broker == call.connection.broker_id)
            and (not self.elements or any(self.selects(keys) for keys in call.leaves()))
            and (self.when is None or self.when(context, call.request))
        )

    def _admits_sender(self, call: Call) -> bool:
        if self.sender is RequestSender.ANY or (self.sender is None and self.client_id is not None):
            return True
        return call.is_of_broker is (self.sender is RequestSender.BROKERS)

    def selects(self, keys: Keys) -> bool:
        """Return whether an innermost element has all the keys."""
        return all(keys.get(role, None) in (value, ANY) for role, value in self.elements.items())

    def admits(self, keys: Keys) -> bool:
        """Return whether no key of an element contradicts."""
        return all(keys[role] in (value, ANY) for role, value in self.elements.items() if role in keys)

    def __str__(self) -> str:
        parts = ["any API" if self.api is None else api_name(self.api)]
        parts += [f"{role}={value}" for role, value in self.elements.items()]
        for name in ("broker", "client_id", "principal", "sender"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={value}")
        if self.when is not None:
            parts.append("when=...")
        return " ".join(parts)
