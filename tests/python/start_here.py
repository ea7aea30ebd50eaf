import numpy as np
import weir

comm = weir.Communicator()                                     # all ranks that mpirun has started
gradient = np.zeros(1000, np.float32)
gradient[[comm.rank, 500]] = 5, 10                             # what this rank has found out
plan = weir.AllreducePlan(comm, count=1000, density=0.01)      # made once per tensor
plan.run(gradient)                                             # in place: the averaged sparse update
assert gradient[500] == 10 and np.isclose(gradient[comm.rank], 5 / comm.size)
print(f"rank {comm.rank} of {comm.size} sent {plan.statistics.payload_bytes_sent} bytes")
