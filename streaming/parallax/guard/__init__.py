"""Acts while a broker is away, before its replicas can diverge.

The clock computes until when each absent replica can come back without missing anything. The guard changes topics'
settings to move that time later.
"""
