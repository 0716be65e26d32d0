"""The comparison: rules as pure functions on arrays, and the stateful stream over the tables."""
