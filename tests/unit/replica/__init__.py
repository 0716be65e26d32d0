"""Tests of parallax.replica that need no broker."""
