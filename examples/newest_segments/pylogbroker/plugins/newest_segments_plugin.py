"""Makes the delete policy `newest-segments` known to pylogbroker."""

from newest_segments import NewestSegmentsFactory

newest_segments = NewestSegmentsFactory()
