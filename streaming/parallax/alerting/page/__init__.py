"""The status page: what the job knows, for a person with a browser."""
