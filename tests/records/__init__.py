"""Tests of pylogbroker.records."""
