"""The entry point of the command ``parallax`` and of ``python -m parallax``."""

import os


def main() -> None:
    """Run the command ``parallax`` with the arguments of this process.

    Ctrl+C while Python is still importing the program ends it with exit code 130 and without a traceback, as Ctrl+C
    does later.
    """
    try:
        from parallax.cli import main as run
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
