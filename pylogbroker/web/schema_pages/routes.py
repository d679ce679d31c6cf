"""Routes of the pages of schemas, and of their forms."""

from __future__ import annotations

from typing import Final

from pylogbroker.web.links import path_of
from pylogbroker.web.page_routes import form, page
from pylogbroker.web.schema_pages.subjects import set_default_level, set_subject_level, subject_page, subject_table

_SCHEMAS: Final = "/schemas"
_TABLE: Final = page(_SCHEMAS, subject_table)
_SUBJECT: Final = page("/schemas/{subject}", subject_page, "schema-subject")

SCHEMA_PAGES: Final = (
    _TABLE,
    form(_SCHEMAS, set_default_level, _TABLE, lambda done: _SCHEMAS),
    _SUBJECT,
    form("/schemas/{subject}", set_subject_level, _SUBJECT, lambda done: path_of("schemas", done["subject"])),
)
