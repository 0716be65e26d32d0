"""Repair on demand: a plan of steps that is written down first, run step by step, and proven."""
