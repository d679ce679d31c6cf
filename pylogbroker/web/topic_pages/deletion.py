"""The page that deletes a topic: what is lost, and who notices."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.web.changes import NamedTopic, delete_topic
from pylogbroker.web.parameters import Name
from pylogbroker.web.router import BadRequest
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_pages.readers import TopicReader, readers_of
from pylogbroker.web.visitors import Visitor


class DeletePage(TopicPage):
    """Groups that read the topic, and how many members they have.

    Without `is_complete`, there may be more groups; without `sees_all`, the visitor may not see all of them.
    """

    groups: Sequence[TopicReader]
    members: int
    knows_members: bool
    is_complete: bool
    sees_all: bool


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
    }


async def delete_topic_confirmed(visitor: Visitor, topic: Name, confirm: Name = "") -> NamedTopic:
    """Delete a topic, whose name is given twice."""
    if confirm != topic:
        raise BadRequest(f"Write {topic} to delete it with all its records.", "confirm")
    return await delete_topic(visitor, topic)
