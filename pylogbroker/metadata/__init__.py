"""Metadata of the cluster: immutable images, deltas between them, and nodes in the coordination tree."""
