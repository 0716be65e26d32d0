"""Acts before replicas diverge, while one of them is away.

The clock computes until when each absent replica can come back without missing anything. The guard changes topics'
settings, so that there is more time.
"""
