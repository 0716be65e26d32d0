"""Builders that the tests of several packages share. Each makes a whole object; a test names what matters."""
