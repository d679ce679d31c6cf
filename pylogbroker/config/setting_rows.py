"""How the tables of broker settings write a row in a line or two."""

from __future__ import annotations

from functools import partial

from pylogbroker.config.setting import Importance, Mode, Setting, Synonym
from pylogbroker.config.value_kinds import Value, ValueKind

_IMPORTANCE = {"high": Importance.HIGH, "medium": Importance.MEDIUM, "low": Importance.LOW}


def _row(
    mode: Mode,
    name: str,
    kind: ValueKind,
    default: Value,
    importance: str,
    doc: str,
    *,
    synonyms: tuple[Synonym, ...] = (),
    internal: bool = False,
) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=default,
        importance=_IMPORTANCE[importance],
        doc=doc,
        mode=mode,
        synonyms=synonyms,
        internal=internal,
    )


fixed = partial(_row, Mode.READ_ONLY)
cluster_wide = partial(_row, Mode.CLUSTER_WIDE)
