"""Records that mirrors write, as values and bytes, for mirrors, commands and the web UI. No I/O.

`formats`    offset syncs, checkpoints and heartbeats, as MirrorMaker 2 writes them
`status`     figures of a running mirror, a header of its heartbeats
"""
