"""Metadata of the cluster: immutable images, deltas between them, and their nodes in the coordination tree.

Nothing here knows Twisted, logs or requests.
"""
