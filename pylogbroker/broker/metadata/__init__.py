"""The cluster's metadata in a broker: the current image, changes to it, and settings that follow it."""
