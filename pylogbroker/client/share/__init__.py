"""The share consumer (KIP-932): members of a share group get records one by one, and acknowledge each.

`consumer`          the public class
`acknowledgements`  which records the program has, and how it has acknowledged them
`session`           one broker's share session
`acquired`          responses to records that this member may process
`share_heartbeats`  membership in a share group
"""
