"""Client of Kafka 0.7: the protocol adapter of `SimpleConsumer`, and its message sets."""
