import numpy as np
import weir

comm = weir.Communicator()  # all ranks that mpirun has started; finds nodes, sockets, caches
gradient = np.zeros(1000, np.float32)
gradient[comm.rank] = 5  # this rank's gradient
gradient[500] = 10

plan = weir.AllreducePlan(comm, count=1000, density=0.01)  # made once per array
plan.run(gradient)  # in place: the mean of the ranks' largest entries

exchange = plan.start(gradient)  # the same, overlapped with your computation here
exchange.wait()

sent = plan.statistics.payload_bytes_sent
print(f"rank {comm.rank} of {comm.size}: {gradient[comm.rank]:.2f} {gradient[500]:.2f}, {sent} bytes sent")
