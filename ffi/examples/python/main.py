import sys

import etvk
import torch
from executorch.runtime import Runtime

etvk.register()
program = Runtime.get().load_program(sys.argv[1])
(output,) = program.load_method("forward").execute([torch.ones(2, 6)])
print(output)
