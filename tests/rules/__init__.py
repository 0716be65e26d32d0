"""What promtool is asked about the alert rules: cases of each, and a quiet week."""
