"""Tests of segments in a remote storage."""
