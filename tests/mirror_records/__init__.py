"""Records that mirrors write to their clusters."""
