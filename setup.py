"""Puts the search spaces and the cluster files into the wheel; all else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("search_spaces", "cluster")  # they stay at the top of the repository, where people look for them


class BuildWithShippedFiles(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a clone has them beside the package
            for source, target in self._shipped():
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(str(target) for _, target in self._shipped())]

    def _shipped(self) -> list[tuple[Path, Path]]:
        into = Path(self.build_lib, "co2l", "_shipped")
        return [(path, into / path) for name in SHIPPED for path in sorted(Path(name).rglob("*")) if path.is_file()]


setup(cmdclass={"build_py": BuildWithShippedFiles})
