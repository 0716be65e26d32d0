"""Messages about findings straight to a receiver, for those who run no Alertmanager."""
