import signal
import sys

import numpy as np
import weir

comm = weir.Communicator()
plan = weir.AllreducePlan(comm, count=1000)
weights = np.zeros(1000, np.float32)

folder = sys.argv[1] if len(sys.argv) > 1 else "checkpoints"  # a folder that all ranks share
checkpoint = weir.Checkpoint(comm, folder=folder)
checkpoint.add("gradient", plan)  # its residual and thresholds
checkpoint.add_replicated("weights", weights)
weir.catch_signal(signal.SIGTERM)  # sent by a batch system before the time limit

step = checkpoint.restore() or 0  # the newest file; None if there is no file
if comm.rank == 0:
    print(f"begins at step {step}")
while step < 300:
    if step % 100 == 0:
        checkpoint.save(step)  # returns at once; writes during the next steps
    gradient = ((np.arange(1000) + comm.rank + step) % 7).astype(np.float32)  # this rank's gradient
    plan.run(gradient)
    weights -= 0.1 * gradient
    step += 1
    if checkpoint.stop_requested():  # if any rank got a signal
        break
checkpoint.save(step).wait()  # waits until the file is in place
