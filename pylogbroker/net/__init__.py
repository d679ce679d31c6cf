"""Listeners and connections of a broker.

- `service` binds listeners; `limits` bounds connections and their memory.
- `transport` sends bytes and file regions.
- `protocol` is a Kafka connection: frames in, answers out in order.
- `routes` finds the codec and the handler of a request.
- `poller` makes the reactor poll eagerly after an event; `stall_watch` logs what blocks the reactor.
"""
