"""An uncaught exception on rank 1, with a run in flight that the others wait for. The launcher ends them."""
import numpy as np
import weir

with weir.Communicator() as comm, weir.AllreducePlan(comm, count=1000) as plan:
    gradient = np.ones(1000, np.float32)
    plan.run(gradient)
    operation = plan.start(gradient)
    if comm.rank == 1:
        raise RuntimeError("rank 1's own")
    operation.wait()
    plan.run(gradient)
