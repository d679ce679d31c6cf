"""Resources of one broker: clock, worker threads, time slices, pauses, throttles."""
