"""The batch comparison: all replicas of chosen partitions, read or looked up as a whole, without history."""
