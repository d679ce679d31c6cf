"""Records over HTTP: written, read and followed by programs; `docs/http-records.md` explains it.

json_records   records in JSON, both ways
json_stream    bodies that are JSON in pieces: lines, and objects one behind the other
idempotence    producer ids of the header Idempotency-Key
appends        batches of new records, which go the way of every produce request
writing        POST /api/topics/T/records: one record, many, or a stream of lines
positions      from and to of a request; positions to go on from
fetching       committed records of partitions, by fetch requests
reading        GET /api/topics/T/records: an answer, or one that waits for records
feeds          new records of topics, read and encoded once for all followers
framing        forms of events; `websockets` has that of WebSockets
followers      connections that follow a topic: server-sent events and WebSockets
group_offsets  offsets of groups: shown, and committed
confluent      the produce request of Confluent's REST API v3, and what its clients look up first
cross_origin   pages of other sites, by CORS
resource       what all of these requests go through
routes         the table of paths
"""
