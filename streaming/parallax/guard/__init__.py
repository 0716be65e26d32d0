"""Acts before replicas diverge: the clock computes bounds, and the guard holds topics.

The clock says until when an absent replica misses nothing.
"""
