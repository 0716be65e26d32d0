"""What the tests of several packages are made of: each with all that it needs, but for what a test says of it."""
