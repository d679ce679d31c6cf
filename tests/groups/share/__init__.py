"""Tests of pylogbroker.groups.share."""
