// slurm.hpp: which switches a node is connected to according to SLURM, without asking its daemons.
#pragma once

#include <string>
#include <string_view>

namespace weir {

/// Returns the switches above `host`, from the outermost in, for example "spine.leaf0". Empty if SLURM does not say, or outside a
/// SLURM job. Uses the address in the environment if it is that of `host`: launchers that copy the environment of the first node to
/// all others (MPICH's) copy that node's address, too. If the environment has no address, or another host's, uses the job's
/// topology.conf: beside the file that SLURM_CONF names, else in /etc/slurm or /run/slurm/conf. The environment has none, for
/// example, for ranks that mpirun starts on the first node of an allocation by salloc.
[[nodiscard]] std::string slurm_switch_address(std::string_view host);

/// Returns the same from the text of a topology.conf; empty if `node` is in none of its switches.
[[nodiscard]] std::string switch_address_in(std::string_view topology_conf, std::string_view node);

/// Returns whether `name` is in a list as SLURM writes them: "login,n[01-12,20]-ib".
[[nodiscard]] bool in_host_list(std::string_view list, std::string_view name);

}  // namespace weir
