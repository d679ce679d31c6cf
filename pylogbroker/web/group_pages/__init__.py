"""Pages of groups: the list, one group, the reset of its offsets, and what is deleted of it."""
