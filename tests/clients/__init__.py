"""Unmodified clients of several makers against a real broker process; see README.md here."""
