"""One partition's log: segments, indexes, recovery, producer states, leader epochs."""
