"""Prometheus: one collector over committed state, served at ``/metrics``."""
