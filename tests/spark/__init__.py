"""Tests of pylogbroker.spark."""
