"""Before replicas diverge: a clock that says until when an absent replica misses nothing, and a guard that waits."""
