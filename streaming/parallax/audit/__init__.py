"""The batch comparison: all replicas of chosen partitions as a whole, read or looked up, without history."""
