"""Messages of Kafka 0.7: layout (`messages`), validation and conversion of sets (`message_sets`)."""
