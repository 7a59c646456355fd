"""Tests of the installed package against the fixtures. Needs torch, executorch and a Vulkan device."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import etvk
import torch
from executorch.runtime import Runtime

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "tests" / "fixtures"
TYPES = {
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "I8": torch.int8,
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
    "BOOL": torch.bool,
}


def tensors(path):
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    named = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        kind = TYPES[info["dtype"]]
        if begin == end:
            named[name] = torch.empty(info["shape"], dtype=kind)
            continue
        flat = torch.frombuffer(data[8 + length + begin : 8 + length + end], dtype=kind)
        named[name] = flat.reshape(info["shape"])
    return named


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )


class Registered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        etvk.register()
        etvk.register()
        cls.runtime = Runtime.get()
        cls.cases = json.loads((FIXTURES / "manifest.json").read_text())["cases"]

    def test_the_backend_is_in_the_registry(self):
        names = self.runtime.backend_registry.registered_backend_names
        self.assertIn("VulkanBackend", names)
        self.assertTrue(self.runtime.backend_registry.is_available("VulkanBackend"))

    def run_case(self, case):
        named = tensors(FIXTURES / case["data"])
        program = self.runtime.load_program(FIXTURES / case["pte"])
        methods = {}
        for run in case["runs"]:
            name = run["method"]
            if name not in methods:
                methods[name] = program.load_method(name)
            inputs = [named[key["key"]] for key in run["inputs"]]
            outputs = methods[name].execute(inputs)
            self.assertEqual(len(outputs), len(run["outputs"]))
            for output, key in zip(outputs, run["outputs"]):
                tolerance = case["tolerance"]
                torch.testing.assert_close(
                    output, named[key["key"]], atol=tolerance["atol"], rtol=tolerance["rtol"], equal_nan=True
                )

    def test_programs_give_what_pytorch_gave(self):
        # Several methods, dynamic shapes, and decoders whose caches carry over from one step to the next.
        wanted = {
            "delegate_inline",
            "bundled_dynamic_softmax",
            "multi_method_prefill_decode",
            "sdpa_kv_decode_static_fp32",
            "gemma4_tiny_4w_fp16",
            "gemma4_tiny_4w_fp32",
        }
        cases = [case for case in self.cases if case["name"] in wanted]
        self.assertEqual({case["name"] for case in cases}, wanted)
        for case in cases:
            with self.subTest(case["name"]):
                self.run_case(case)

    def test_devices_have_names(self):
        devices = etvk.devices()
        self.assertEqual([device.index for device in devices], list(range(len(devices))))
        self.assertTrue(all(device.name for device in devices))

    def test_check_gives_reasons(self):
        self.assertEqual(etvk.check(FIXTURES / "format" / "delegate_inline.pte"), [])
        reasons = etvk.check(FIXTURES / "format" / "external_constants_one_fp32.pte")
        self.assertTrue(reasons and all("forward" in reason for reason in reasons), reasons)
        with self.assertRaises(etvk.Error):
            etvk.check(FIXTURES / "manifest.json")

    def test_options_are_checked(self):
        with self.assertRaises(etvk.Error) as caught:
            etvk.set_option("colour", "blue")
        self.assertEqual(caught.exception.status, 0x20)
        etvk.set_option("submit_budget_us", 20000)
        etvk.set_option("submit_budget_us", 0)


class Versions(unittest.TestCase):
    def test_another_executorch_is_refused(self):
        code = (
            "import etvk._build; etvk._build.EXECUTORCH = '9.9.9'\n"
            "import etvk\n"
            "try: etvk.register()\n"
            "except etvk.VersionError as error: print(error)\n"
        )
        found = run_python(code)
        self.assertIn("was built for ExecuTorch 9.9.9, found 1.5.1", found.stdout, found.stderr)

    def test_a_missing_executorch_is_told(self):
        code = (
            "import importlib.util as util; real = util.find_spec\n"
            "util.find_spec = lambda name, *rest: None if name == 'executorch' else real(name, *rest)\n"
            "import etvk\n"
            "try: etvk.register()\n"
            "except etvk.VersionError as error: print(error)\n"
        )
        found = run_python(code)
        self.assertIn("none is installed: pip install executorch==", found.stdout, found.stderr)

    def test_the_backend_may_come_before_or_after_the_bindings(self):
        first = "import etvk; etvk.register(); from executorch.runtime import Runtime; r = Runtime.get()\n"
        second = "from executorch.runtime import Runtime; r = Runtime.get(); import etvk; etvk.register()\n"
        show = "print('VulkanBackend' in r.backend_registry.registered_backend_names)"
        for order in (first, second):
            found = run_python(order + show)
            self.assertEqual(found.stdout.strip(), "True", found.stderr)


if __name__ == "__main__":
    unittest.main()
