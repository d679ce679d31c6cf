"""What can go wrong in a measurement."""


class BenchmarkError(Exception):
    """A broker did not do what the workload needs, so that there is nothing to measure."""
