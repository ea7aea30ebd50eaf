// slurm.hpp: which switches SLURM says a node hangs on, without asking its daemons.
#pragma once

#include <string>
#include <string_view>

namespace weir {

/// The switches above `host`, from the outermost in, "spine.leaf0"; empty where SLURM does not say. The address in the environment
/// counts where it is that of `host`: launchers that copy the environment of the first node to all others (MPICH's) carry that
/// node's address along. Where the environment has no address, or another host's, as for the ranks that mpirun starts on the
/// first node of an allocation by salloc, the job's topology.conf says the same: beside the file that SLURM_CONF names, else in
/// /etc/slurm or /run/slurm/conf. Only inside a SLURM job.
[[nodiscard]] std::string slurm_switch_address(std::string_view host);

/// The same of the text of a topology.conf; empty where `node` is in none of its switches.
[[nodiscard]] std::string switch_address_in(std::string_view topology_conf, std::string_view node);

/// Whether `name` is one of a list as SLURM writes them: "login,n[01-12,20]-ib".
[[nodiscard]] bool in_host_list(std::string_view list, std::string_view name);

}  // namespace weir
