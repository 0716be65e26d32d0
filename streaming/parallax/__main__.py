"""What starts the command ``parallax``."""

import os


def main() -> None:
    """Run the command; Ctrl+C while its parts are being loaded ends it as later, without a traceback."""
    try:
        from parallax.cli import main as run
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
