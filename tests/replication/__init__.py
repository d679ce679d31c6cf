"""Replication: transcripts of single rules."""
