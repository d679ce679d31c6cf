"""Tests of pylogbroker.blocking."""
