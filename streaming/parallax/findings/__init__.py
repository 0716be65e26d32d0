"""From suspect to finding: probes of the brokers, evidence, the life of a finding, and the findings table."""
