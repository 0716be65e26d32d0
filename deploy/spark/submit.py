"""What ``spark-submit`` starts: Parallax's command line, in the driver that spark-submit has made."""

from parallax.cli import main

main()
