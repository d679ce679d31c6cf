"""Coordination tree: small nodes with versions and watches, which brokers share.

embedded        the tree of a cluster of one broker, in a SQLite file
transactions    all operations of a commit, or none
watches         callbacks after a change
disk_reserve    space for the tree on a full disk
"""
