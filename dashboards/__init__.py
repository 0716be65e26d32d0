"""Grafana dashboards, generated: ``python -m dashboards`` writes the JSON files beside this module."""
