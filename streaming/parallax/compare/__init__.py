"""The judgement: rules as pure functions on arrays, the stateful processor, the comparison query."""
