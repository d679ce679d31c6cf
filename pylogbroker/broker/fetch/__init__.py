"""Fetch requests: sessions, reads from the page cache or the disk, and conversion for old clients."""
