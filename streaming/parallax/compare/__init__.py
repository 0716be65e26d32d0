"""The judgement: rules as pure functions on arrays, the stateful stream over the tables."""
