"""The backend's library: the C interface of etvk.h, and what registers it with ExecuTorch."""

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import pathlib
from typing import List, NamedTuple, Union

from etvk import _build

_LIBRARY = "libexecutorch_backend_vulkan.so"
_OK = 0
_ALREADY_REGISTERED = 0x12
_BOOL, _INT, _TEXT = 1, 2, 3
_KINDS = ("other", "integrated", "discrete", "virtual", "cpu")


class Error(RuntimeError):
    """A call of the library that failed. ``status`` is one of ExecuTorch's error codes."""

    def __init__(self, status: int, text: str):
        super().__init__(f"{text} ({status:#04x})")
        self.status = status


class VersionError(ImportError):
    """ExecuTorch is missing, or it is not the release that this package was built for."""


class Device(NamedTuple):
    """A Vulkan device; ``index`` and parts of ``name`` are values of the option ``device``."""

    index: int
    name: str
    kind: str
    vendor_id: int
    device_id: int
    vulkan: str


class _DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("index", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("vendor_id", ctypes.c_uint32),
        ("device_id", ctypes.c_uint32),
        ("version_major", ctypes.c_uint32),
        ("version_minor", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
    ]


class _Option(ctypes.Structure):
    _fields_ = [
        ("key", ctypes.c_char_p),
        ("kind", ctypes.c_uint32),
        ("int_value", ctypes.c_int64),
        ("text_value", ctypes.c_char_p),
    ]


_VISIT_DEVICE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_DeviceInfo))
_VISIT_TEXT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


def _executorch() -> pathlib.Path:
    """Folder of the ExecuTorch that is installed, which has to be the release that the library was built against: C++
    interfaces and class layouts differ from one to the next."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise VersionError(
            f"etvk {_build.VERSION} needs ExecuTorch {_build.EXECUTORCH}, and none is installed: "
            f"pip install executorch=={_build.EXECUTORCH}"
        )
    found = importlib.metadata.version("executorch")
    if found.split("+")[0] != _build.EXECUTORCH:
        raise VersionError(
            f"etvk {_build.VERSION} was built for ExecuTorch {_build.EXECUTORCH}, found {found}: "
            f"pip install executorch=={_build.EXECUTORCH}, or an etvk that was built for {found}"
        )
    for folder in spec.submodule_search_locations:
        if (pathlib.Path(folder) / "lib" / "libexecutorch.so").exists():
            return pathlib.Path(folder)
    raise VersionError(f"the installed ExecuTorch {found} has no lib/libexecutorch.so")


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The loaded library. Loading it is what registers the backend."""
    # The library finds ExecuTorch's by name among those that are loaded already.
    ctypes.CDLL(str(_executorch() / "lib" / "libexecutorch.so"))
    loaded = ctypes.CDLL(str(pathlib.Path(__file__).parent / _LIBRARY))
    loaded.etvk_last_error.restype = ctypes.c_char_p
    loaded.etvk_backend_name.restype = ctypes.c_char_p
    loaded.etvk_devices.argtypes = [_VISIT_DEVICE, ctypes.c_void_p]
    loaded.etvk_check.argtypes = [ctypes.c_char_p, _VISIT_TEXT, ctypes.c_void_p]
    loaded.etvk_option_set.argtypes = [ctypes.POINTER(_Option), ctypes.c_size_t]
    found = loaded.etvk_abi_version()
    if found != _build.ABI:
        raise VersionError(f"expected version {_build.ABI} of the C interface, found {found}")
    return loaded


def _call(function: str, *arguments) -> None:
    loaded = library()
    status = getattr(loaded, function)(*arguments)
    if status != _OK:
        raise Error(status, loaded.etvk_last_error().decode())


def register(**options: Union[bool, int, str]) -> None:
    """Puts the backend into ExecuTorch's registry; a second call does nothing more. ``options`` are those of
    ``set_option``.

    Raises ``VersionError`` if the installed ExecuTorch is not the one that this package was built for, and ``Error`` if
    there is another backend of the name, or for an option that is not valid.
    """
    loaded = library()
    status = loaded.etvk_backend_registered()
    if status != _OK:
        name = loaded.etvk_backend_name().decode()
        reason = f"{name} cannot be registered"
        if status == _ALREADY_REGISTERED:
            reason = f"ExecuTorch has a backend {name} already"
        raise Error(status, reason)
    for key, value in options.items():
        set_option(key, value)


def set_option(key: str, value: Union[bool, int, str]) -> None:
    """Sets an option for all programs that are loaded later: ``device`` (a place in ``devices()`` or a part of a name),
    ``pipeline_cache_path``, ``profile``, ``submit_budget_us``."""
    option = _Option(key=key.encode())
    if isinstance(value, bool):
        option.kind, option.int_value = _BOOL, int(value)
    elif isinstance(value, int):
        option.kind, option.int_value = _INT, value
    else:
        option.kind, option.text_value = _TEXT, os.fspath(value).encode()
    _call("etvk_option_set", ctypes.byref(option), 1)


def check(path: Union[str, os.PathLike]) -> List[str]:
    """Every reason why the delegated parts of a ``.pte`` or ``.bpte`` file do not run; none if they do. Needs no device.

    Raises ``Error`` if the file cannot be read.
    """
    reasons: List[str] = []
    visit = _VISIT_TEXT(lambda _, text: reasons.append(text.decode()))
    try:
        _call("etvk_check", os.fsencode(path), visit, None)
    except Error:
        if not reasons:
            raise
    return reasons


def devices() -> List[Device]:
    """The Vulkan devices of this machine. Raises ``Error`` without a Vulkan loader."""
    found: List[Device] = []

    def visit(_, info):
        it = info.contents
        kind = _KINDS[it.kind] if it.kind < len(_KINDS) else "other"
        vulkan = f"{it.version_major}.{it.version_minor}"
        found.append(Device(it.index, it.name.decode(), kind, it.vendor_id, it.device_id, vulkan))

    _call("etvk_devices", _VISIT_DEVICE(visit), None)
    return found
