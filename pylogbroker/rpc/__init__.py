"""Connections to brokers, below the client, Spark's part and the broker.

transport             TCP connections that receive into the protocol's buffer and send chunks; for servers, too
endpoint              connecting: name resolution, socket options
pipelined_connection  pending requests and responses, in order
connection            a connection in Kafka's protocol
client_protocol       version negotiation, encoding and decoding, without I/O
settings              addresses, and settings of connections
errors                errors of requests
malloc_tuning         memory for large responses

`client_protocol` and the last three need no Twisted: blocking connections use them, too.
"""
