"""Tests of `pylogbroker.groups`."""
