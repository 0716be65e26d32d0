"""The entry point of the command ``parallax`` and of ``python -m parallax``."""

import os


def main() -> None:
    """Run the command ``parallax`` with the arguments of this process.

    Ctrl+C ends the process with exit code 130 and no traceback, even while Python still imports the program.
    """
    try:
        from parallax.cli import main as run
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
