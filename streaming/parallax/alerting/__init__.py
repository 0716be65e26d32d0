"""Metrics, alerts and the status page: everything that reports what the job knows."""
