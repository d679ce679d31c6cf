"""What carries requests and answers: listeners, the sendfile transport, and one session per connection.

`transport` moves bytes and file regions between a socket and a protocol; `protocol` is a Kafka connection: frames in,
answers out, in order, and `simple` one of a client of 0.7; `routes` finds the codec and the handler of a request;
`limits` bounds what connections may hold; `service` binds listeners and closes them; `polling` asks the reactor's
poller for more than Twisted does.
"""
