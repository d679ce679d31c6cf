"""Error of a benchmark."""


class BenchmarkError(Exception):
    """A broker did not do what the workload needs; there is no result."""
