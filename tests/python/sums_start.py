import numpy as np
import weir

comm = weir.Communicator()
charge = weir.SparseSum(comm, count=8_000_000_000, expected_entries=3)  # cells of the whole mesh
cells = np.array([7_000_000_000 + comm.rank, 42, 42])  # this rank's particles: a cell may come twice, in any order
at, sums = charge.run(cells, np.array([0.5, 0.25, 0.25]))  # on every rank: the cells that any rank has
print(f"rank {comm.rank} of {comm.size}: {len(at)} cells, {sums[0]:.2f} in cell {at[0]}")
