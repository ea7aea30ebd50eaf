"""What pyproject.toml cannot say: the version is the C header's, and two modules are made, not committed."""
import pathlib
import re
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/weir/weir.h").read_text()


class Build(build_py):
    def run(self):
        super().run()
        made = ROOT / "generated"  # of a release archive
        if not (made / "of_release").exists():
            made = pathlib.Path(self.build_lib) / ".." / "generated"
            subprocess.run([sys.executable, ROOT / "capi/interface/generate.py", "--build", made], check=True)
        for file in (made / "python/weir").glob("*.py"):
            self.copy_file(str(file), str(pathlib.Path(self.build_lib) / "weir" / file.name))


setup(version=".".join(re.search(rf"WEIR_VERSION_{part} (\d+)", HEADER)[1] for part in ("MAJOR", "MINOR", "PATCH")), cmdclass={"build_py": Build})
