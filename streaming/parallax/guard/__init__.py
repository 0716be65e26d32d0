"""Against divergence before it happens: a clock knows how long replicas may be away, a guard holds topics.

The clock says until when an absent replica misses nothing.
"""
