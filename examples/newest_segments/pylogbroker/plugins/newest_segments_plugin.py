"""Registers the delete policy `newest-segments` with pylogbroker."""

from newest_segments import NewestSegmentsFactory

newest_segments = NewestSegmentsFactory()
