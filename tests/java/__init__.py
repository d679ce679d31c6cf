"""Tests of `pylogbroker.java`."""
