"""The page that deletes a topic: what is lost, and who notices."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.errors import KafkaError
from pylogbroker.web.changes import NamedTopic, delete_topic
from pylogbroker.web.page_routes import PageAgain
from pylogbroker.web.parameters import Name
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_pages.readers import TopicReader, readers_of
from pylogbroker.web.views import status_of
from pylogbroker.web.visitors import Visitor


class DeletePage(TopicPage):
    """Groups that read the topic, and how many members they have; `error` is about the name that was written.

    Without `is_complete`, there may be more groups; without `sees_all`, the visitor may not see all of them.
    """

    groups: Sequence[TopicReader]
    members: int
    knows_members: bool
    is_complete: bool
    sees_all: bool
    confirm: str
    error: str


async def topic_to_delete(visitor: Visitor, topic: Name) -> DeletePage:
    """Return what is lost if a topic is deleted."""
    head = await topic_head(visitor, topic)
    reading = await readers_of(visitor, visitor.services.metadata.require_topic(topic))
    return {
        "head": head,
        "groups": reading.readers,
        "members": sum(group.members or 0 for group in reading.readers),
        "knows_members": all(group.members is not None for group in reading.readers),
        "is_complete": reading.is_complete,
        "sees_all": visitor.context.access is None,
        "confirm": "",
        "error": "",
    }


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
