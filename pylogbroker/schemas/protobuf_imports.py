"""Files that Protobuf schemas may import without a reference, besides Protobuf's own: Confluent's, and Google's types.

Serializers of Confluent's clients take them as known, and register no reference for them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

_META: Final = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option java_package = "io.confluent.protobuf";
option java_outer_classname = "MetaProto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL: Final = """syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
option java_multiple_files = true;
option java_outer_classname = "DecimalProto";
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_CONFLUENT: Final = {"confluent/meta.proto": _META, "confluent/type/decimal.proto": _DECIMAL}
_GOOGLE_TYPES: Final = "google.type"
_PREFIXES: Final = ("confluent/", "google/type/")


def is_known(name: str) -> bool:
    """Return whether a file may be known: its name begins like those of this module."""
    return name.startswith(_PREFIXES)


def write_known_files(directory: Path) -> None:
    """Put the files into an empty directory; those of Google if `googleapis-common-protos` is installed."""
    for name, source in _CONFLUENT.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    try:
        spec = find_spec(_GOOGLE_TYPES)
    except ModuleNotFoundError:
        return
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        (directory / "google").mkdir(exist_ok=True)
        (directory / "google" / "type").symlink_to(place)
        return
