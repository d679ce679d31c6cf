"""Options of the sink."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.spark.options import kafka_settings
from pylogbroker.spark.options.raw import RawOptions


@attrs.frozen
class WriteOptions:
    settings: Values
    topic: str | None
    exactly_once: bool
    transactional_id_prefix: str
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        raw = RawOptions(options)
        topic = raw.text("topic")
        if topic is not None and not topic.strip():
            raise ConfigError("option topic: it is empty; name a topic, or remove the option and add a column topic")
        return cls(
            settings=kafka_settings.writing(raw),
            topic=topic if topic is None else topic.strip(),
            exactly_once=raw.flag("exactlyOnce", True),
            transactional_id_prefix=raw.text("transactionalIdPrefix") or "pylogbroker-spark-",
            warnings=tuple(raw.warnings),
        )
