"""Server of Kafka 0.7: connections, and request handlers for topics of its format."""
