"""Changes as forms of the page ask for them: names written again, and buttons that choose one of two changes."""

from __future__ import annotations

from pylogbroker.web.changes import ChangedSetting, NamedTopic, delete_topic, restore_setting, set_setting
from pylogbroker.web.parameters import Name
from pylogbroker.web.router import BadRequest
from pylogbroker.web.visitors import Visitor


async def alter_topic(
    visitor: Visitor, name: Name, setting: Name, value: str | None = None, restore: bool = False
) -> ChangedSetting:
    """Set one setting of a topic, or restore its default."""
    if restore:
        return await restore_setting(visitor, name, setting)
    if value is None:
        raise BadRequest("value is missing")
    return await set_setting(visitor, name, setting, value)


async def delete_topic_confirmed(visitor: Visitor, name: Name, confirm: Name) -> NamedTopic:
    """Delete a topic, whose name is given twice."""
    if confirm != name:
        raise BadRequest("confirm must be the name of the topic, which is deleted with all its records")
    return await delete_topic(visitor, name)
