"""Runs ExecuTorch programs that were exported for Vulkan.

    import etvk
    etvk.register()

After that, ``executorch.runtime.Runtime`` runs them like any other program.
"""

from etvk._library import Device, Error, VersionError, check, devices, library, register, set_option

__all__ = ["Device", "Error", "VersionError", "check", "devices", "library", "register", "set_option"]
