"""The page that deletes a topic: what is lost, and who notices."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.errors import KafkaError
from pylogbroker.web.changes import NamedTopic, delete_topic
from pylogbroker.web.page_routes import PageAgain
from pylogbroker.web.parameters import Name
from pylogbroker.web.topic_pages.groups import TopicReader, readers_of
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.views import status_of
from pylogbroker.web.visitors import Visitor


class DeletePage(TopicPage):
    """Groups that read the topic, and how many members they have; `error` is about the name that was written."""

    groups: Sequence[TopicReader]
    members: int
    confirm: str
    error: str


async def topic_to_delete(visitor: Visitor, topic: Name) -> DeletePage:
    """Return what is lost if a topic is deleted."""
    head = await topic_head(visitor, topic)
    groups, _ = await readers_of(visitor, visitor.services.metadata.require_topic(topic))
    members = sum(group.members or 0 for group in groups)
    return {"head": head, "groups": groups, "members": members, "confirm": "", "error": ""}


async def delete_topic_confirmed(visitor: Visitor, topic: Name, confirm: Name = "") -> NamedTopic:
    """Delete a topic, whose name is given twice; raise PageAgain with the form if it is not."""
    if confirm == topic:
        try:
            return await delete_topic(visitor, topic)
        except KafkaError as failure:
            error, code = f"{failure.detail.rstrip('.')}.", status_of(failure)
    else:
        code, error = 400, f"Write {topic} to delete it with all its records."
    raise PageAgain({**await topic_to_delete(visitor, topic), "confirm": confirm, "error": error}, code)
