"""Before replicas diverge: a clock, and a guard that makes brokers wait.

The clock says until when an absent replica misses nothing.
"""
