"""An exception that nobody catches, on rank 1, while the others wait for it: the launcher ends them."""
import numpy as np
import weir

comm = weir.Communicator()
plan = weir.AllreducePlan(comm, count=1000)
gradient = np.ones(1000, np.float32)
plan.run(gradient)
operation = plan.start(gradient)
if comm.rank == 1:
    raise RuntimeError("rank 1's own")
operation.wait()
