#!/usr/bin/env python3
"""Writes SimGrid platform files for simulated machines, and starts programs on them.

    machines.py MACHINE RANKS [--scale S] --platform FILE.xml --hosts FILE

A host is one rank with its GPU. The part of its name before the first dot is its node. Its speed is the number of bytes per second
that its kernels move, because kernel_costs.cpp charges one flop for each byte. SCALE divides all bandwidths, including speeds, but
not latencies. n / S elements then take as long as n elements on the machine itself.
"""
import argparse
import itertools
import json
import os
import re
import subprocess
import tempfile

HEAD = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
"""

# Pure alpha-beta networks: a message of b bytes takes the latency of its route plus b over the bandwidth available to it.
# Polling costs nothing (simulated_machine.cpp waits). kernel_costs.cpp charges the costs of computing.
SETTINGS = [
    "smpi/simulate-computation:no",
    "smpi/iprobe:0",
    "smpi/test:0",
    "smpi/wtime:0",
    "smpi/bw-factor:0:1",
    "smpi/lat-factor:0:1",
    "network/crosstraffic:0",
    "network/TCP-gamma:0",
    "network/weight-S:0",
    "smpi/coll-selector:ompi",
    "smpi/send-is-detached-thresh:0",
    "smpi/privatization:dlopen",
    "smpi/shared-malloc-blocksize:67108864",  # for weir_simulate_pto: a mapping for each block
]

# surf: seconds within which events count as simultaneous. SimGrid recomputes the shares of bandwidths after each event. On
# Ethernet, whose messages take at least 50 us, 1 us makes the simulation of 64 ranks twice as fast and changes steps of training by
# 0.2 %. A thousand ranks have a million messages in an exchange. 0.1 us halves the time to simulate 256 ranks on Piz Daint and
# changes an allreduce by 0.2 %.
# maxmin: the precision of shares. With 1e-2, some of the thousands of messages of 64 ranks and 161 plans got no bandwidth, and
# SimGrid stopped.
ETHERNET_PRECISION = ["surf/precision:1e-6", "maxmin/precision:1e-5"]
USUAL_PRECISION = ["surf/precision:1e-12", "maxmin/precision:1e-2"]
MANY_RANKS, PRECISION_OF_MANY = 512, ["surf/precision:1e-7", "maxmin/precision:1e-2"]

FLAT_BANDWIDTH = 10e9
FLAT_LATENCY = 1e-6
FLAT_SPEED = 550e9


def flat(ranks, scale):
    """One rank on each node. Every pair has 10 GB/s and 1 us."""
    return (
        f'<cluster id="flat" prefix="n" suffix="" radical="0-{ranks - 1}" speed="{FLAT_SPEED / scale}f" '
        f'bw="{FLAT_BANDWIDTH / scale}Bps" lat="{FLAT_LATENCY / 2}s"/>\n',
        [f"n{i}" for i in range(ranks)],
    )


def ethernet(gbits):
    """One rank on each node, with a V100 (675 GB/s, 75 % of its data sheet) and a network card of that rate; 50 us between any
    two."""

    def machine(ranks, scale):
        return (
            f'<cluster id="ethernet" prefix="n" suffix="" radical="0-{ranks - 1}" speed="{675e9 / scale}f" '
            f'bw="{gbits * 125e6 / scale}Bps" lat="25us"/>\n',
            [f"n{i}" for i in range(ranks)],
        )

    return machine


def groups_of_hosts(name, sizes, host, link, scale):
    """Adds groups, each with its own switch and link to all other groups. `host` and `link` are XML attributes without
    bandwidths."""
    text = f'<zone id="{name}" routing="Full">\n'
    for g, size in enumerate(sizes):
        text += (
            f'<cluster id="{host["prefix"]}{g}" prefix="{host["prefix"]}{g}{host["separator"]}" suffix="" radical="0-{size - 1}" '
            f'speed="{host["speed"] / scale}f" bw="{host["bandwidth"] / scale}Bps" lat="{host["latency"]}s" router_id="switch{g}"/>\n'
            f'<link id="link{g}" bandwidth="{link["bandwidth"] / scale}Bps" latency="{link["latency"]}s" '
            'sharing_policy="SPLITDUPLEX"/>\n'
        )
    for a, b in itertools.permutations(range(len(sizes)), 2):
        text += (
            f'<zoneRoute src="{host["prefix"]}{a}" dst="{host["prefix"]}{b}" gw_src="switch{a}" gw_dst="switch{b}" '
            f'symmetrical="NO"><link_ctn id="link{a}" direction="UP"/><link_ctn id="link{b}" direction="DOWN"/></zoneRoute>\n'
        )
    names = [f'{host["prefix"]}{g}{host["separator"]}{i}' for g, size in enumerate(sizes) for i in range(size)]
    return text + "</zone>\n", names


def piz_daint(ranks, scale):
    """Cray XC50: one P100 per node, Aries dragonfly.

    The P100 moves 550 GB/s (75 % of its data sheet). A node injects 10 GB/s; messages take 1.3 us in a group and 1.9 us between
    groups. The job has 64 nodes in each group. Routing is adaptive: the links inside a group never limit, the optical links of a
    group are one pool of 6.25 GB/s a node (a bisection of 33 TB/s for 5272 nodes).
    """
    size = 64
    sizes = [min(size, ranks - first) for first in range(0, ranks, size)]
    host = {"prefix": "group", "separator": "node", "speed": 550e9, "bandwidth": 10e9, "latency": 0.65e-6}
    return groups_of_hosts("piz_daint", sizes, host, {"bandwidth": size * 6.25e9, "latency": 0.3e-6}, scale)


def commlib(ranks, scale):
    """Instances of 8 V100 each, with NVLink inside and 25 Gbit/s Ethernet between them (CommLib section 5.1).

    A V100 moves 675 GB/s (75 % of its data sheet) and sends 150 GB/s to its 7 neighbours in 2 us; the 8 share one card of
    3.125 GB/s each way; messages between instances take 30 us.
    """
    size = 8
    sizes = [min(size, ranks - first) for first in range(0, ranks, size)]
    host = {"prefix": "instance", "separator": ".", "speed": 675e9, "bandwidth": 150e9, "latency": 1e-6}
    return groups_of_hosts("commlib", sizes, host, {"bandwidth": 3.125e9, "latency": 14e-6}, scale)


MACHINES = {"flat": flat, "ethernet_1gbit": ethernet(1), "ethernet_10gbit": ethernet(10), "piz_daint": piz_daint, "commlib": commlib}


def write_machine(machine, ranks, scale, platform, hosts, speed=None):
    """Writes the platform and the list of hosts. `speed` replaces that of the hosts."""
    body, names = MACHINES[machine](ranks, scale)
    if speed:
        body = re.sub(r'speed="[^"]*"', f'speed="{speed / scale}f"', body)
    with open(platform, "w") as file:
        file.write(HEAD + body + "</platform>\n")
    with open(hosts, "w") as file:
        file.write("\n".join(names) + "\n")


def host_speed(machine):
    return float(re.search(r'speed="([^"]*)f"', MACHINES[machine](2, 1)[0])[1])


def scaled_figures(machine, scale, file, speed=None):
    """Writes a machine file with bandwidths and rates divided by `scale`, as `weir calibrate` would measure on the scaled machine.

    At full speed it is ../machines/simulated_MACHINE.json. `speed` replaces that of the hosts.
    """
    slower = scale * (host_speed(machine) / speed if speed else 1)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "machines", f"simulated_{machine}.json")) as source:
        figures = json.load(source)
    for link in figures["levels"].values():
        for key in ("bandwidth", "exchange", "shared"):
            link[key] /= scale
    figures["rates"] = {key: rate / slower for key, rate in figures["rates"].items()}
    with open(file, "w") as scaled:
        json.dump(figures, scaled)


def precision(machine, ranks):
    if machine.startswith("ethernet"):
        return ETHERNET_PRECISION
    return PRECISION_OF_MANY if ranks >= MANY_RANKS else USUAL_PRECISION


def simulate(program, machine, ranks, scale, arguments, speed=None):
    """Runs `program` on every rank. `speed` replaces that of the hosts. Returns its real seconds and peak memory in bytes; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        platform, hosts = os.path.join(folder, "platform.xml"), os.path.join(folder, "hosts")
        write_machine(machine, ranks, scale, platform, hosts, speed)
        command = ["smpirun", "-np", str(ranks), "-platform", platform, "-hostfile", hosts]
        command += [f"--cfg={setting}" for setting in SETTINGS + precision(machine, ranks)] + ["--log=root.thresh:warning", program, *arguments]
        begin = os.times().elapsed
        process = subprocess.Popen(command, env=os.environ | {"TMPDIR": folder, "WEIR_SHARED_MEMORY": "0"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return os.times().elapsed - begin, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--hosts", required=True)
    options = parser.parse_args()
    write_machine(options.machine, options.ranks, options.scale, options.platform, options.hosts)


if __name__ == "__main__":
    main()
