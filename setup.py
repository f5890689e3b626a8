"""The build of the package: pyproject.toml says what is in it, this adds the page, which npm builds from web-app/."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from build_page import build_page

_NO_COMPILER = """stepscope reads traces with compiled code, and it could not be compiled here ({error}).
Install a C++ compiler (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install)."""


class BuildWithPage(build_py):
    """Also for an editable installation, for which setuptools' own command does nothing."""

    def run(self) -> None:
        build_page(Path(__file__).parent)
        super().run()


class BuildCompiled(build_ext):
    """Says what to install where there is no compiler."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except CompileError as error:
            if ext.optional:
                raise
            raise CompileError(_NO_COMPILER.format(error=error)) from error


setup(cmdclass={"build_py": BuildWithPage, "build_ext": BuildCompiled})
