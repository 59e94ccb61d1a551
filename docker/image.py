"""Build the image and try it: 'make image' runs this, with the standard library alone. 'image.py try' builds nothing.

Engine, first that there is, or the one that ENGINE names: docker, podman, buildah. The last needs no daemon: it builds
in chroot isolation as root, and the container is then started here, in a mount namespace with a read-only root.

Environment: ENGINE; BASE_IMAGE instead of the Dockerfile's, or 'debian', which makes one from Debian's packages, as is
done where no registry can be reached; CPU_TARGET, CUDA_ARCHITECTURES, GPU_KINDS and REQUIREMENTS (build arguments);
IMAGE, the name to give; KEEP_BASE, a file to keep that base in. pip's settings and certificates of this machine serve
the build and stay out of the image.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import engines
import trial

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "docker" / "Dockerfile"
DEBIAN_BASE = "localhost/ik-service-base"
BUILD_ARGUMENTS = ("CPU_TARGET", "CUDA_ARCHITECTURES", "GPU_KINDS", "REQUIREMENTS")
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PULL_S = 60.0
PACKAGES = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "setpriv": "util-linux"}


def default_base() -> str:
    """The base that the Dockerfile names."""
    found = re.search(r"^ARG BASE_IMAGE=(\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def require(*tools: str) -> None:
    """End where tools are missing, with the packages of Debian that bring them."""
    missing = sorted({PACKAGES[tool] for tool in tools if shutil.which(tool) is None})
    if missing:
        sys.exit(f"There is no docker, and these are missing. Debian and Ubuntu: apt-get install {' '.join(missing)}")


def debian_sources() -> str:
    """Where this machine gets Debian's packages from."""
    for path in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        if pathlib.Path(path).exists():
            return pathlib.Path(path).read_text()
    sys.exit("No base image can be pulled, and this machine names no sources of Debian packages. Set BASE_IMAGE.")


def make_debian_base(folder: pathlib.Path) -> str:
    """Make a base from Debian's packages: what Python needs, and Python."""
    require("mmdebstrap")
    kept = os.environ.get("KEEP_BASE")
    archive = pathlib.Path(kept) if kept else folder / "base.tar"
    if not archive.exists():
        release = dict(
            line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().split("\n") if "=" in line
        )
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
        command += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        command += [release["VERSION_CODENAME"], str(archive), "-"]
        subprocess.run(command, input=debian_sources(), text=True, check=True)
    container = engines.output("buildah", "from", "scratch")
    engines.call("buildah", "add", "--quiet", container, str(archive), "/")
    engines.call("buildah", "commit", "--quiet", "--rm", container, DEBIAN_BASE)
    return DEBIAN_BASE


def choose_base(engine: engines.Engine, folder: pathlib.Path) -> str:
    """The base to build on: what is asked for, what can be pulled, or one made here."""
    asked = os.environ.get("BASE_IMAGE", "")
    if asked != "debian":
        base = asked or default_base()
        if asked or engine.name != "buildah" or engine.can_pull(base, PULL_S):
            return base
        print(f"{base} cannot be pulled: a base is made from Debian's packages.", flush=True)
    return make_debian_base(folder)


def secrets(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """What the build may read and the image does not hold: settings of pip, and certificates."""
    settings = []
    for name in ("index-url", "trusted-host", "proxy", "timeout"):
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", f"global.{name}"],
            capture_output=True,
            text=True,
            check=False,
        )
        value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}") or asked.stdout.strip()
        settings += [f"{name} = {value}"] if value else []
    found = {}
    certificates = next((os.environ[name] for name in CERTIFICATES if os.path.isfile(os.environ.get(name, ""))), None)
    if certificates is not None:
        found["certificates"] = pathlib.Path(certificates)
        settings.append("cert = /run/secrets/certificates")
    if settings:
        found["pip_conf"] = folder / "pip.conf"
        found["pip_conf"].write_text("\n".join(["[global]", *settings]) + "\n")
    return found


def build_arguments(base: str) -> dict[str, str]:
    """The build arguments: the base, what the environment asks for, and what labels say."""
    given = {name: os.environ[name] for name in BUILD_ARGUMENTS if name in os.environ}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "BASE_IMAGE": base,
        **given,
        "VERSION": project["version"],
        "REVISION": revision.stdout.strip() or "unknown",
    }


def build(engine: engines.Engine, image: str, folder: pathlib.Path) -> None:
    """Build the image."""
    started = time.monotonic()
    base = choose_base(engine, folder)
    print(f"== base {base}: {time.monotonic() - started:.0f} s", flush=True)
    started = time.monotonic()
    engine.build(image, DOCKERFILE, ROOT, build_arguments(base), secrets(folder))
    print(f"== build by {engine.name}: {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    """Build the image and try it."""
    image = os.environ.get("IMAGE", "localhost/ik-service")
    engine = engines.find(os.environ.get("ENGINE"))
    if engine.name == "buildah":
        require("buildah", "unshare", "setpriv")
        if os.geteuid() != 0:
            sys.exit("Without docker the build needs root.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # files of the container's user
        folder = pathlib.Path(name)
        if sys.argv[1:] != ["try"]:
            build(engine, image, folder)
        trial.try_image(engine, image, folder)


if __name__ == "__main__":
    main()
