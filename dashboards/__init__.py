"""Grafana dashboards, generated: ``python -m dashboards`` writes the JSON files next to this module."""
