"""The form that writes a record, also one that is there already once more: texts, and bytes as base64."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Annotated, Final, TypedDict, Unpack

from pylogbroker.errors import KafkaError
from pylogbroker.records import Record
from pylogbroker.web.changes import ProducedRecord, write_record
from pylogbroker.web.parameters import INT32_MAX, Name
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf, whole_number
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_records.opened import BASE64, TEXT, RecordForm
from pylogbroker.web.topic_records.page import QueryFields, opened_of
from pylogbroker.web.topic_records.query import BadField, RecordQuery
from pylogbroker.web.visitors import Visitor

_FORMS: Final = (TEXT, BASE64)
Form = Annotated[str, OneOf(_FORMS), "what is written in the field"]


class WritePage(TopicPage):
    """Values of the form, and why they are not those of the record that is opened."""

    query: RecordQuery
    record: RecordForm
    problem: str


class FormFields(TypedDict, total=False):
    """Fields of the form."""

    partition: str
    key: str
    key_form: Form
    value: str
    value_form: Form
    headers: Annotated[str, "one in a line, name: value"]
    headers_form: Form
    tombstone: Annotated[bool, "no value, whatever is given"]
    empty_key: Annotated[bool, "an empty key in place of none, without a text"]


async def new_record(visitor: Visitor, topic: Name, **fields: Unpack[QueryFields]) -> WritePage:
    """Return the form that writes a record: empty, or filled in with the record that is opened."""
    head, query = await topic_head(visitor, topic), RecordQuery(topic, **fields)
    record, problem = RecordForm(partition=query.partition), ""
    if query.at and head.rights.read:
        try:
            again = (await opened_of(visitor, query)).again
        except (BadField, KafkaError) as error:
            problem = f"{(error.detail if isinstance(error, KafkaError) else str(error)).rstrip('.')}."
        else:
            problem = "" if again else "The record is too long for a form, or has headers that no form can hold."
            record = again or record
    return {"head": head, "query": query, "record": record, "problem": problem}


async def write_new_record(visitor: Visitor, topic: Name, **fields: Unpack[FormFields]) -> ProducedRecord:
    """Write one record; raise BadRequest or KafkaError for what is not understood or not accepted."""
    form = RecordForm(**fields)
    return await write_record(visitor, topic, _partition(form.partition), _record(form, visitor))


def _partition(text: str) -> int | None:
    if not text.strip():
        return None
    number = whole_number(text)
    if number is None or not 0 <= number <= INT32_MAX:
        raise BadRequest(
            f"{text.strip()} is no partition. Write a number, or nothing: the key decides then.", "partition"
        )
    return number


def _record(form: RecordForm, visitor: Visitor) -> Record:
    if form.key and form.empty_key:
        raise BadRequest("A key that is written here is not empty: write none, or remove the mark below.", "key")
    key = _bytes("key", form.key, form.key_form) if form.key or form.empty_key else None
    value = None if form.tombstone else _bytes("value", form.value, form.value_form)
    return Record(0, visitor.services.runtime.now_ms(), key, value, _headers(form))


def _bytes(field: str, text: str, form: str) -> bytes:
    """Return what a field has; raise BadRequest for a text that is not base64."""
    if form == TEXT:
        return text.encode()
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("This is not base64: it has letters, digits, +, / and = at its end.", field) from None


def _headers(form: RecordForm) -> tuple[tuple[str, bytes], ...]:
    headers = []
    for number, line in enumerate(form.headers.split("\n"), 1):
        name, colon, text = line.partition(":")
        if line.strip():
            if not colon:
                raise BadRequest(f"Line {number} has no colon. Write name: value.", "headers")
            headers.append((name.strip(), _bytes("headers", text.strip(), form.headers_form)))
    return tuple(headers)
