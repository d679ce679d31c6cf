"""Each client behind the same few calls, so that what all can do is tested once for all."""
