"""Tests of `pylogbroker.metadata`."""
