"""Share groups (KIP-932), without I/O and clock.

partition   the records of one partition as one group sees them
"""
