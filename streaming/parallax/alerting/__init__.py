"""Metrics, alerts and the status page: served by one collector over committed state, at ``/metrics``."""
