"""A soak: the real job over a cluster that is hurt, cleaned and written to for as long as asked."""
