"""Conditions on records: a small language. No I/O."""
