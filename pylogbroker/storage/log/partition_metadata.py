"""`partition.metadata`: which topic a partition's directory belongs to, in Kafka's format.

```
version: 0
topic_id: 3Jz7e5qRTlOQd1zvO1dXUg        22 characters of URL-safe base64
```

A topic's name may be given again, its id never is: by the id a log is told from one of an earlier topic of its name.
The file is written when a log is made, and forced to the disk with the log's first sync.
"""

from __future__ import annotations

import base64
import os
import re
import uuid
from typing import Final

from pylogbroker.storage import names
from pylogbroker.storage.files import opened, read_file, write_at

_CONTENT: Final = re.compile(rb"version: 0\r?\ntopic_id: ([A-Za-z0-9_-]{22})\r?\n?")


def id_text(topic_id: uuid.UUID) -> str:
    """An id as the file has it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def read_topic_id(directory: str) -> uuid.UUID | None:
    """The topic that a partition's directory belongs to; None if the file is not there or not whole."""
    found = _CONTENT.fullmatch(read_file(f"{directory}/{names.PARTITION_METADATA}") or b"")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(found[1] + b"==")) if found else None


def write_topic_id(directory: str, topic_id: uuid.UUID) -> None:
    """Mark a partition's directory as a topic's.  Does not wait for the disk."""
    content = f"version: 0\ntopic_id: {id_text(topic_id)}\n".encode()
    with opened(f"{directory}/{names.PARTITION_METADATA}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [content], 0, len(content))
