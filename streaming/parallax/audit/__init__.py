"""Audits: all replicas of chosen partitions are compared as a whole, without history."""
