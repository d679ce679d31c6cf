"""What several test packages share: processes started, watched by their output, and ended."""
