"""The form that writes a record, also one that is there already once more: texts, and bytes as base64."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Annotated, Final, TypedDict, Unpack

from pylogbroker.errors import KafkaError
from pylogbroker.records import Record
from pylogbroker.web.changes import ProducedRecord, write_record
from pylogbroker.web.page_routes import PageAgain
from pylogbroker.web.parameters import INT32_MAX, Name
from pylogbroker.web.router.values import OneOf, whole_number
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_records.opened import BASE64, TEXT, RecordForm
from pylogbroker.web.topic_records.page import QueryFields, opened_of
from pylogbroker.web.topic_records.query import BadField, RecordQuery
from pylogbroker.web.views import status_of
from pylogbroker.web.visitors import Visitor

_FORMS: Final = (TEXT, BASE64)
Form = Annotated[str, OneOf(_FORMS), "what is written in the field"]


class WritePage(TopicPage):
    """Values of the form; `field` is the one that `error` is about, empty if it is about none."""

    query: RecordQuery
    form: RecordForm
    problem: str
    field: str
    error: str


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


async def new_record(visitor: Visitor, topic: Name, **fields: Unpack[QueryFields]) -> WritePage:
    """Return the form that writes a record: empty, or filled in with the record that is opened."""
    head, query = await topic_head(visitor, topic), RecordQuery(topic, **fields)
    form, problem = RecordForm(partition=query.partition), ""
    if query.at and head.rights.read:
        try:
            again = (await opened_of(visitor, query)).again
        except (BadField, KafkaError) as error:
            problem = f"{(error.detail if isinstance(error, KafkaError) else str(error)).rstrip('.')}."
        else:
            problem = "" if again else "The record is too long for a form, or has headers that no form can hold."
            form = again or form
    return {"head": head, "query": query, "form": form, "problem": problem, "field": "", "error": ""}


async def write_new_record(visitor: Visitor, topic: Name, **fields: Unpack[FormFields]) -> ProducedRecord:
    """Write one record; raise PageAgain with the form for what is not understood or not accepted."""
    form = RecordForm(**fields)
    try:
        return await write_record(visitor, topic, _partition(form.partition), _record(form, visitor))
    except BadField as error:
        field, message, code = error.field, str(error), 400
    except KafkaError as failure:
        field, message = "partition" if "partition" in failure.detail else "", f"{failure.detail.rstrip('.')}."
        code = status_of(failure)
    page = await new_record(visitor, topic)
    raise PageAgain({**page, "form": form, "field": field, "error": message}, code)


def _partition(text: str) -> int | None:
    if not text.strip():
        return None
    number = whole_number(text)
    if number is None or not 0 <= number <= INT32_MAX:
        raise BadField(
            "partition", f"{text.strip()} is no partition. Write a number, or nothing: the key decides then."
        )
    return number


def _record(form: RecordForm, visitor: Visitor) -> Record:
    key = _bytes("key", form.key, form.key_form)
    value = None if form.tombstone else _bytes("value", form.value, form.value_form)
    return Record(0, visitor.services.runtime.now_ms(), key or None, value, _headers(form))


def _bytes(field: str, text: str, form: str) -> bytes:
    """Return what a field has; raise BadField for a text that is not base64."""
    if form == TEXT:
        return text.encode()
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadField(field, "This is not base64: it has letters, digits, +, / and = at its end.") from None


def _headers(form: RecordForm) -> tuple[tuple[str, bytes], ...]:
    headers = []
    for number, line in enumerate(form.headers.split("\n"), 1):
        name, colon, text = line.partition(":")
        if line.strip():
            if not colon:
                raise BadField("headers", f"Line {number} has no colon. Write name: value.")
            headers.append((name.strip(), _bytes("headers", text.strip(), form.headers_form)))
    return tuple(headers)
