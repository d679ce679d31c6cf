"""Tests of the benchmarks: that they measure what they say, on a broker of tiny size."""
