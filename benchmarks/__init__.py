"""Benchmarks: each prints a table with a peer measured in the same run."""
