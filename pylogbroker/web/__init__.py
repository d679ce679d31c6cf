"""HTTP server of a broker: health checks, and what others put below its root.

site      requests: Host check, limits, plain errors.
texts     resources that answer with plain text; `late_answers` those that take a while.
health    /livez, /readyz.
metrics   /metrics.
router    tables of routes, also of `pylogbroker.testing`: dispatch, checks of parameters, OpenAPI documents.
visitors  who asks, and what they may do.
request_bodies    bodies that are taken while they arrive.
description       the OpenAPI document, /openapi.json.
records_api       records for programs: written, read and followed.
views     routes of topics, records, groups and so on, by the modules named so; `parameters`, `rows` help them.
samples   what `sampler` notes at regular times: `topic_rates`, `group_lags`; `charts` draws them.
live      new records as they come.
faults    where testing is on: `fault_views`, by `fault_port`.
changes   of topics, records and, in `group_reset`, offsets; `forms` rejects what other sites send.
figures   of open pages, sent as they change.
pages     HTML of the views, by `templates`; `page_routes` are routes of pages and of their forms.
frame     what stands around each page; `going` finds what somebody wants to go to; `formats` are texts of values.
service   addresses to listen on.
"""
