#!/usr/bin/env python3
"""Makes the wheel out of this folder and the backend's library; needs nothing but Python.

    build.py LIBRARY VERSION EXECUTORCH FOLDER

LIBRARY is libexecutorch_backend_vulkan.so, EXECUTORCH the folder of the ExecuTorch that it was built against.
"""

import base64
import hashlib
import pathlib
import platform
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def abi() -> str:
    header = (HERE.parent / "include" / "etvk.h").read_text()
    return re.search(r"#define ETVK_ABI_VERSION (\d+)", header).group(1)


def executorch_version(folder: pathlib.Path) -> str:
    text = (folder / "version.py").read_text()
    return re.search(r'__version__ = "([0-9.]+)', text).group(1)


def glibc(library: bytes) -> str:
    """The newest glibc whose symbols the library needs."""
    found = {tuple(map(int, match.split(b"."))) for match in re.findall(rb"\0GLIBC_(\d+\.\d+)", library)}
    return "_".join(map(str, max(found)))


def main() -> None:
    library, version, executorch, out = sys.argv[1:]
    library = pathlib.Path(library).read_bytes()
    release = executorch_version(pathlib.Path(executorch))
    tag = f"py3-none-manylinux_{glibc(library)}_{platform.machine()}"
    info = f"etvk-{version}.dist-info"
    files = {f"etvk/{path.name}": path.read_bytes() for path in sorted((HERE / "etvk").glob("*.py"))}
    files["etvk/_build.py"] = (
        f'"""What this package was built from."""\n\nVERSION = "{version}"\nEXECUTORCH = "{release}"\nABI = {abi()}\n'
    ).encode()
    files["etvk/libexecutorch_backend_vulkan.so"] = library
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: etvk\nVersion: {version}\n"
        "Summary: Runs ExecuTorch programs that were exported for Vulkan\n"
        "License: BSD-3-Clause OR Apache-2.0\nRequires-Python: >=3.9\n"
        f"Requires-Dist: executorch=={release}\n"
    ).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: etvk\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    for name in ("LICENSE-BSD", "LICENSE-APACHE"):
        files[f"{info}/licenses/{name}"] = (HERE.parent.parent / name).read_bytes()
    record = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
    wheel = pathlib.Path(out) / f"etvk-{version}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # A fixed time, so that the same input gives the same wheel.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    print(wheel)


main()
