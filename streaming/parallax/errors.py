"""What the machine lacks: the one error that every layer may raise before its work begins."""


class SetupError(RuntimeError):
    """No usable JDK, or jars that cannot be had; the text is one line that says what to do."""
