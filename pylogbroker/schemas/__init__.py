"""Schemas of keys and values: Avro, JSON Schema and Protobuf, by a registry with Confluent's interface.

    values           schemas with their references
    framing          which schema content has: a prefix of five bytes, or a header with a GUID
    registry_client  requests to a registry, without I/O of its own
    endpoint         addresses and credentials of a registry, from settings
    blocking         exchange of requests that blocks: for the command, and worker threads of a broker
    codecs           codec of a schema; each type has a module
    limits           budget of the JSON that is made from content
    names            subjects that a topic's schemas have

All decoding gives JSON text, all encoding takes it. Contents come from anybody: decoding is bounded by a budget of
characters, and recursion by Python's limit. `fastavro` reads schemas alone, since its reader crashes on deeply nested
content.
"""
