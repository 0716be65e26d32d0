"""What ``spark-submit`` starts: Parallax's command line, in the driver that spark-submit has made.

Checked: by a standalone cluster. Not run: by the Spark operator, YARN.
"""

from parallax.cli import main

main()
