"""Validation of produced record batches: headers, record structure, the topic's rules."""
