"""Repair on demand: a plan of steps, written down before anything is changed, run one by one and proven."""
