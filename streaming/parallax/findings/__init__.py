"""From suspect to finding: live probes, evidence, lifecycle, the findings table."""
