"""Client of Kafka 0.7: protocol adapter of `SimpleConsumer`, and message sets."""
