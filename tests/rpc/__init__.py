"""Tests of `pylogbroker.rpc`."""
