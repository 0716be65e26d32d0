"""Audits: each compares whole partitions, with one reading of every replica and without history."""
