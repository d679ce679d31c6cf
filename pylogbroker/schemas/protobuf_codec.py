"""Protobuf: JSON by its standard mapping, with fields named as in the schema and fields without a value shown.

A registry has schemas as source, or as a serialized FileDescriptorProto in Base64, as Confluent's Python serializer
registers them. Source is compiled by `protoc` of grpcio-tools, in a process of its own: it may be anybody's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

import attrs
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from pylogbroker.json_text import named_once, tokens_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, decoded_indexes, encoded_indexes
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.protobuf_costs import MessageCosts
from pylogbroker.schemas.protobuf_imports import is_known, write_known_files
from pylogbroker.schemas.protobuf_values import check_message

_COMPILER: Final = "grpc_tools"
_COMPILER_SECONDS: Final = 30
_MAIN: Final = "schema.proto"
_SHOWN_MAX: Final = 200
_STANDARD: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2),
        *(source_context_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
    )
}
"""Files that Protobuf itself has: schemas import them without a reference."""


@attrs.frozen(eq=False, repr=False)
class ProtobufCodec:
    _pool: Any
    _file: Any
    _message: Any
    """Descriptor of the message to encode."""
    _costs: MessageCosts

    @classmethod
    def of(cls, text: str, references: Mapping[str, str], message: str) -> ProtobufCodec:
        pool, descriptor = pool_of(files_of(text, references))
        return cls(pool, descriptor, _message_of(descriptor, message), MessageCosts(pool, descriptor))

    @property
    def record_name(self) -> str:
        return str(self._message.full_name)

    def prepare(self) -> None:
        """Do nothing: reading needs the same."""

    def for_message(self, name: str) -> ProtobufCodec:
        """Return the codec that writes another message; raise InvalidSchema."""
        return attrs.evolve(self, message=_message_of(self._file, name))

    def message_of(self, frame: FramedContent) -> Any:
        """Return the descriptor of a content's message; raise Undecodable."""
        return self._at(decoded_indexes(frame.payload if frame.indexes is None else frame.indexes)[0])

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        if frame.indexes is None:
            indexes, at = decoded_indexes(frame.payload)
        else:
            indexes, at = decoded_indexes(frame.indexes)[0], 0
        try:
            message = GetMessageClass(self._at(indexes))()
            message.ParseFromString(frame.payload[at:])
            is_small = self._costs.is_small(frame.payload, budget)
            if not is_small:
                self._costs.spend(message, budget)
            text: str = MessageToJson(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                indent=None,
                ensure_ascii=False,
                descriptor_pool=self._pool,
            )
        except RecursionError:
            raise Undecodable("it is nested too deeply") from None
        except (DecodeError, JsonFormatError, TypeError, ValueError) as error:
            raise Undecodable(f"it is no {self._at(indexes).full_name}: {_shortened(str(error))}") from error
        if is_small:
            budget.spend(len(text))
        return text

    def encode(self, text: str) -> bytes:
        if not text.lstrip().startswith("{") and not self._message.full_name.startswith("google.protobuf."):
            raise Unencodable("", f"an object is expected for the message {self._message.full_name}")
        message = GetMessageClass(self._message)()
        try:
            check_message(tokens_of(text, named_once), self._message)
            Parse(text, message, descriptor_pool=self._pool)
            body: bytes = message.SerializeToString()
        except RecursionError:
            raise Unencodable("", "it is nested too deeply") from None
        except json.JSONDecodeError as error:
            raise Unencodable("", f"this is no JSON: {error}") from error
        except (JsonFormatError, EncodeError, TypeError, ValueError) as error:
            raise Unencodable("", _shortened(" ".join(str(error).split()))) from error
        return encoded_indexes(_indexes_of(self._message)) + body

    def _at(self, indexes: Sequence[int]) -> Any:
        """Return the message that indexes name."""
        messages: list[Any] = list(self._file.message_types_by_name.values())
        descriptor = None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise Undecodable(f"it names message {list(indexes)}, which the schema does not have")
            descriptor = messages[index]
            messages = list(descriptor.nested_types)
        return descriptor


def files_of(text: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the files of a schema, source or serialized, each after those that it needs; raise InvalidSchema.

    The schema itself is the last. Source is compiled by a process of its own, which blocks.
    """
    serialized = _serialized(text)
    if serialized is not None:
        return [*_known_files(serialized), *_serialized_references(references), serialized]
    return _compiled(text, references)


def _known_files(file: FileDescriptorProto) -> list[FileDescriptorProto]:
    """Return what a serialized file imports of the files that are known, each after those that it needs."""
    names = [name for name in file.dependency if is_known(name)]
    if not names:
        return []
    imports = "".join(f'import "{name}"; ' for name in names if '"' not in name)
    return [other for other in _compiled(f'syntax = "proto3"; {imports}', {})[:-1] if other.name not in _STANDARD]


def pool_of(files: Sequence[FileDescriptorProto]) -> tuple[Any, Any]:
    """Return a pool with files, and the descriptor of the last; raise InvalidSchema."""
    pool = DescriptorPool()
    try:
        for file in files:
            _add(pool, file)
        return pool, pool.FindFileByName(files[-1].name)
    except (TypeError, KeyError) as error:  # what a file needs is missing, or declared twice
        raise InvalidSchema(f"the Protobuf schema cannot be used: {error}") from error


def _indexes_of(message: Any) -> list[int]:
    indexes: list[int] = []
    while message is not None:
        parent = message.containing_type
        siblings = parent.nested_types if parent is not None else message.file.message_types_by_name.values()
        names = [sibling.full_name for sibling in siblings]
        indexes.insert(0, names.index(message.full_name))
        message = parent
    return indexes


def _message_of(file: Any, name: str) -> Any:
    """Return a message by its name, full or within the package; by default the first. Raise InvalidSchema."""
    every = list(_messages(file.message_types_by_name.values()))
    if not every:
        raise InvalidSchema("the Protobuf schema has no message")
    if not name:
        return every[0]
    for message in every:
        if name in (message.full_name, message.full_name.removeprefix(f"{file.package}.")):
            return message
    names = ", ".join(message.full_name for message in every)
    raise InvalidSchema(f"the Protobuf schema has no message {name}: it has {names}")


def _messages(messages: Iterable[Any]) -> Iterable[Any]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield message
            yield from _messages(message.nested_types)


def _serialized(text: str) -> FileDescriptorProto | None:
    """Return the file of a schema that is not source but serialized; None for source."""
    try:
        data = b64decode(text.strip(), validate=True)
        return FileDescriptorProto.FromString(data)
    except (BadBase64, ValueError, DecodeError):
        return None


def _serialized_references(references: Mapping[str, str]) -> list[FileDescriptorProto]:
    files = []
    for name, text in references.items():
        file = _serialized(text)
        if file is None:
            raise InvalidSchema(f"the reference {name} is source, and the schema is serialized: register both alike")
        file.name = name
        files.append(file)
    return files


def _add(pool: Any, file: FileDescriptorProto) -> None:
    """Add a file to a pool, after those of Protobuf itself that it needs."""
    for name in file.dependency:
        if name in _STANDARD:
            try:
                pool.FindFileByName(name)
            except KeyError:
                _add(pool, FileDescriptorProto.FromString(_STANDARD[name]))
    pool.AddSerializedFile(file.SerializeToString())


def _compiled(text: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the files of a source, each after those that it needs; raise InvalidSchema."""
    if find_spec(_COMPILER) is None:
        raise ModuleNotFoundError("the compiler of Protobuf is missing", name=_COMPILER)
    prefix = "pylogbroker-protobuf-"
    with tempfile.TemporaryDirectory(prefix=prefix) as name, tempfile.TemporaryDirectory(prefix=prefix) as imports:
        directory = Path(name)
        write_known_files(Path(imports))  # apart, since references could write there
        main = _MAIN
        while main in references:
            main = f"_{main}"
        for path, source in {**references, main: text}.items():
            _check_path(path)
            try:
                _write(directory / path, source)
            except (OSError, ValueError) as error:  # a file is a directory, too, or a name is too long or not UTF-8
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise InvalidSchema(f"the Protobuf schema {_shortened(path)} cannot be stored: {reason}") from error
        arguments = ["-I.", f"-I{imports}", "--include_imports", "--descriptor_set_out=compiled", main]
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *arguments]  # -P: imports nothing from here
        try:
            compiler = subprocess.run(
                command, cwd=directory, capture_output=True, timeout=_COMPILER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise InvalidSchema(f"the Protobuf schema took more than {_COMPILER_SECONDS} s to compile") from error
        if compiler.returncode:
            raise InvalidSchema(f"the Protobuf schema cannot be compiled: {_first_line(compiler.stderr, main)}")
        compiled = FileDescriptorSet.FromString((directory / "compiled").read_bytes())
    return list(compiled.file)


def _check_path(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".proto" or not name.isprintable():
        raise InvalidSchema(f"the reference {_shortened(name)!r} is no path of a .proto file")


def _write(path: Path, source: str) -> None:
    data = source.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _first_line(output: bytes, main: str) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if ".proto:" in line]
    return lines[0].replace(f"{main}:", "line ", 1) if lines else "protoc gave no reason"
