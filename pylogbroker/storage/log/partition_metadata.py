"""`partition.metadata`: topic id of a partition's directory, in Kafka's format.

```
version: 0
topic_id: 3Jz7e5qRTlOQd1zvO1dXUg        22 characters of URL-safe base64
```

The id shows whether a log is of an earlier topic of that name. The log's first sync includes the file.
"""

from __future__ import annotations

import base64
import os
import re
import uuid
from functools import lru_cache
from typing import Final

from pylogbroker.storage import names
from pylogbroker.storage.files import opened, read_file, write_at

_CONTENT: Final = re.compile(rb"version: 0\r?\ntopic_id: ([A-Za-z0-9_-]{22})\r?\n?")

_TOPICS_CACHED_MAX: Final = 1000


def id_text(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def read_topic_id(directory: str) -> uuid.UUID | None:
    """Return None if the file is missing or incomplete."""
    return _parse(read_file(f"{directory}/{names.PARTITION_METADATA}") or b"")


@lru_cache(_TOPICS_CACHED_MAX)
def _parse(content: bytes) -> uuid.UUID | None:
    """Parse the content, which is the same for all partitions of a topic."""
    match = _CONTENT.fullmatch(content)
    return uuid.UUID(bytes=base64.urlsafe_b64decode(match[1] + b"==")) if match else None


def write_topic_id(directory: str, topic_id: uuid.UUID) -> None:
    """Write without a sync."""
    content = f"version: 0\ntopic_id: {id_text(topic_id)}\n".encode()
    with opened(f"{directory}/{names.PARTITION_METADATA}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [content], 0, len(content))
