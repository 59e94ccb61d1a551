"""Make Python packages of the messages in `definitions`, with the generators that the wheels of rclpy bring.

Usage: message_packages.py FOLDER. It runs in the environment of rclpy and needs a C and a C++ compiler. The folder then
holds packages such as `moveit_msgs` that Python can import, and one library with the code of them all; in an
installation of ROS each package has several of its own.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

os.environ["AMENT_PREFIX_PATH"] = sys.prefix  # where the generators look for their templates

import numpy as np
from rosidl_adapter import convert_to_idl
from rosidl_generator_c.cli import GenerateC
from rosidl_generator_py.cli import GeneratePython
from rosidl_typesupport_c.cli import GenerateCTypesupport
from rosidl_typesupport_fastrtps_c.cli import GenerateFastRTPSCTypesupport

sys.path.insert(0, str(Path(__file__).parent))

from definitions import MESSAGES, PACKAGES, SERVICES

LIBRARY = "ik_ros_messages"
GENERATORS = (
    GenerateC("c"),
    GenerateFastRTPSCTypesupport("fastrtps_c"),
    GenerateCTypesupport("c", typesupport_implementations=["rosidl_typesupport_fastrtps_c"]),
    GeneratePython("py", typesupport_implementations=["rosidl_typesupport_c"]),
)
PARTS = ("generator_c", "generator_py", "typesupport_c", "typesupport_fastrtps_c")
LINKED = (
    *(f"{package}__rosidl_{part}" for package in ("builtin_interfaces", "service_msgs") for part in PARTS),
    *("rosidl_runtime_c", "rosidl_typesupport_c", "rosidl_typesupport_fastrtps_c", "rosidl_typesupport_fastrtps_cpp"),
    *("rcutils", "rmw", "fastcdr"),
)
OPTIONS = ("-O1", "-fPIC", "-w")


def write_package(package: str, folder: Path) -> None:
    """Write the definitions of a package, and all sources that are generated from them."""
    files = []
    for kind, texts in (("msg", MESSAGES), ("srv", SERVICES)):
        for name, text in texts.items():
            if name.startswith(f"{package}/"):
                file = Path(kind, f"{name.partition('/')[2]}.{kind}")
                source = folder / "definitions" / package / file
                source.parent.mkdir(parents=True, exist_ok=True)
                source.write_text(text + "\n")
                convert_to_idl(folder / "definitions" / package, package, file, folder / package)
                files.append(f"{folder / package}:{file.with_suffix('.idl')}")
    include = [str(folder), str(Path(sys.prefix, "share"))]
    for generator in GENERATORS:
        generator.generate(package, files, include, folder / package)


def include_options(folder: Path) -> list[str]:
    """Return the options by which a compiler finds all headers."""
    installed = Path(sys.prefix, "include")
    headers = [folder, sysconfig.get_path("include"), np.get_include(), installed, *installed.iterdir()]
    return [f"-I{path}" for path in headers]


def compile_package(package: str, folder: Path) -> list[Path]:
    """Compile a package, what is in C++ in one go because its headers take longest; return the objects."""
    own, place = folder / package, folder / "objects" / package
    place.mkdir(parents=True)
    together = place / "together.cpp"
    together.write_text("".join(f'#include "{source}"\n' for source in sorted(own.rglob("*.cpp"))))
    c_sources = [*sorted(own.glob("*/detail/*.c")), *sorted(own.glob("*/_*_s.c"))]
    for compiler, sources in (("gcc", c_sources), ("g++", [together])):
        command = [compiler, *OPTIONS, *include_options(folder), "-c", *sources]
        subprocess.run(command, cwd=place, check=True)
    return sorted(place.glob("*.o"))


def link(folder: Path, objects: list[Path]) -> None:
    """Link the library, and for each package the module by which Python comes to its types."""
    shared, libraries = ["g++", "-shared", "-Wl,-rpath,$ORIGIN/.."], Path(sys.prefix, "lib")
    linked = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{name}" for name in LINKED)]
    subprocess.run([*shared, *objects, *linked, "-o", folder / f"lib{LIBRARY}.so"], check=True)
    for package in PACKAGES:
        source = folder / package / f"_{package}_s.ep.rosidl_typesupport_c.c"
        made = source.with_suffix(".o")
        subprocess.run(["gcc", *OPTIONS, *include_options(folder), "-c", source, "-o", made], check=True)
        module = folder / package / f"{package}_s__rosidl_typesupport_c.so"
        subprocess.run([*shared, made, f"-L{folder}", f"-l{LIBRARY}", *linked, "-o", module], check=True)
        (folder / package / "__init__.py").touch()


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    target.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for name in PACKAGES:
        write_package(name, target)
    for name in PACKAGES:
        made += compile_package(name, target)
    link(target, made)
