"""The build of the package: pyproject.toml says what is in it, this adds the page, which npm builds from web-app/."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from build_page import build_page


class BuildWithPage(build_py):
    """Also for an editable installation, for which setuptools' own command does nothing."""

    def run(self) -> None:
        build_page(Path(__file__).parent)
        super().run()


setup(cmdclass={"build_py": BuildWithPage})
