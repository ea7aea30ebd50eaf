import signal
import sys

import numpy as np
import weir

comm = weir.Communicator()
plan = weir.AllreducePlan(comm, count=1000)
weights = np.zeros(1000, np.float32)

folder = sys.argv[1] if len(sys.argv) > 1 else "checkpoints"  # a folder that all ranks see
checkpoint = weir.Checkpoint(comm, folder=folder)
checkpoint.add("gradient", plan)  # its residual and thresholds
checkpoint.add_replicated("weights", weights)
weir.catch_signal(signal.SIGTERM)  # what a batch system sends before the time is up

step = checkpoint.restore() or 0  # the newest file; None if there is no file
if comm.rank == 0:
    print(f"begins at step {step}")
while step < 300:
    if step % 100 == 0:
        checkpoint.save(step)  # returns at once: written behind the next steps
    gradient = ((np.arange(1000) + comm.rank + step) % 7).astype(np.float32)  # what this rank has found out
    plan.run(gradient)
    weights -= 0.1 * gradient
    step += 1
    if checkpoint.stop_requested():  # on any rank
        break
checkpoint.save(step).wait()  # until the file is in its place
