"""What the wheel holds beside the package: configuration, rules, dashboards and documents, copied from where they are.

They have one source, the folders at the top of the repository. `parallax.shipped` finds them in both places.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TOP = Path(__file__).parent
SHIPPED = (
    "conf/*.yaml",
    "deploy/prometheus/*.y*ml",
    "deploy/alertmanager/*",
    "dashboards/*.json",
    "docs/*.md",
    "docs/contribute/glossary.md",
    "docs/contribute/theory.md",
    "docs/operate/*.md",
    "docs/reference/*.md",
    "docs/pictures/*",
)


class BuildWithShipped(build_py):
    """Copies the files into the package that is built; an editable install reads them where they are."""

    def run(self) -> None:
        """Build the package; of an earlier build nothing is left, which would be shipped."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(Path(self.build_lib, "parallax"), ignore_errors=True)
        super().run()
        for pattern in SHIPPED:
            for file in sorted(TOP.glob(pattern)):
                to = Path(self.build_lib, "parallax", "share", file.relative_to(TOP))
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)


setup(cmdclass={"build_py": BuildWithShipped})
