"""Conditions on records: a small language, compiled into closures. No I/O.

    value.customer == "c-3" and value.items[0].price > 10
    key ~ "eu-" or headers["source"] == "web" and not exists value.error
    partition == 4 and offset >= 1000 and time >= "2026-11-28T07:00" and size > 100

| operand                                | is                                                     |
|----------------------------------------|--------------------------------------------------------|
| `value`, `key`                         | the text                                               |
| `value.a.b`, `value["a b"][0]`, `key.a` | a part of the JSON, with the last of several members  |
| `headers["x"]`                         | the text of the last header of this name               |
| `partition`, `offset`, `size`          | numbers; the size is that of key and value             |
| `time`                                 | milliseconds since 1970, compared with these or a time |
| `"text"`, `'text'`, `1.50`, `true`, `false`, `null` | constants                                 |

`==`, `<`, `<=`, `>`, `>=` are false for values of two kinds, and for one that is missing. `!=` is the opposite of `==`.
`~` means that a text contains another one, whatever the case of letters. Numbers are compared as decimals, exactly.
`exists` is true for a part that is there, also if it is null. `not` binds closest, then `and`, then `or`.

`compile_condition` raises `BadCondition`, whose message names the character and says what to write. A condition
has a bounded length and depth, so its evaluation is bounded by the size of a record.

`Needles` are bytes that a record must contain to fulfil a condition: many records need not be looked at.
"""

from pylogbroker.conditions.compiler import RecordCondition, compile_condition
from pylogbroker.conditions.needles import Needles, text_needles
from pylogbroker.conditions.scanner import BadCondition
from pylogbroker.conditions.subject import JSON_BYTES_MAX, Subject

__all__ = [
    "JSON_BYTES_MAX",
    "BadCondition",
    "Needles",
    "RecordCondition",
    "Subject",
    "compile_condition",
    "text_needles",
]
