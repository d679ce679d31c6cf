"""Schema registry: Confluent's REST interface, kept in the topic `_schemas`.

service            addresses of a broker's registry; which broker answers a request
site, handlers     HTTP, routes and their answers; `callers` has rights
registry           versions and compatibility; `subject_settings` levels and modes
state              what the records of `_schemas` make; `records` has their layout, `subjects` names and contexts
log                how the registry reads and appends records; `schemas_topic` does so in a cluster
parsing            schemas of the three types, each with a parser and its rules of compatibility
validation         checks of produced records
"""
