"""How the ranks of weir.torch come together: MPI for processes of torch.distributed, and the other way round."""
from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from typing import Any, Dict, Iterator, Optional

import torch
import torch.distributed as dist

from ._handles import Process
from ._types import ArgumentError, StateError, UnsupportedError
from .communicator import Communicator, initialise

NEEDED = (2, 15)  # of PyTorch, for the backend
LONGEST = 300.0  # the default of WEIR_TIMEOUT
SIOCGIFADDR = 0x8915  # of Linux: the address of a network interface


def free_port() -> int:
    """Returns a port that was free a moment ago."""
    with socket.create_server(("", 0)) as one:
        return int(one.getsockname()[1])


@contextlib.contextmanager
def variables_of(store: Any = None, rank: int = 0, ranks: int = 0, seconds: float = LONGEST) -> Iterator[None]:
    """Collective over the ranks of torch.distributed, or over the `ranks` that share `store`. If they are several, sets the variables
    by which Weir starts MPI for them, whatever has started the processes, and removes them at the end: rank 0's address and a free
    port travel through PyTorch's store. The ranks wait for each other as WEIR_TIMEOUT says, or else at most `seconds`."""
    if store is None and dist.is_available() and dist.is_initialized():
        store, rank, ranks = dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
    if store is None or ranks == 1:
        yield
        return
    where = ""
    if rank == 0:
        try:
            where = f"{os.environ.get('MASTER_ADDR') or own_address()} {free_port()}"
        finally:
            store.set("weir/start", where)  # the others wait for it
    where = store.get("weir/start").decode()
    if not where:
        raise StateError("rank 0 finds no port on which it can listen: its own error says why")
    host, port = where.rsplit(" ", 1)
    ports = f"{port}-{min(int(port) + 15, 65535)}"
    ours = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": host, "MASTER_PORT": port, "WEIR_PORTS": ports}
    if 0 < seconds < LONGEST and "WEIR_TIMEOUT" not in os.environ:
        ours["WEIR_TIMEOUT"] = seconds
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update({name: str(value) for name, value in ours.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def start_by_store(store: Any = None, rank: int = 0, ranks: int = 0, seconds: float = LONGEST) -> None:
    """Collective over the ranks of torch.distributed, or over the `ranks` that share `store`. If they are several, starts MPI for
    them. Does nothing where MPI runs already, or where its own launcher has started the processes."""
    with variables_of(store, rank, ranks, seconds):
        initialise()


def everybody() -> Communicator:
    """Returns a communicator of all ranks. ArgumentError if PyTorch's job has another number."""
    # The variables say which ranks there are, if somebody else has started MPI for each of them alone.
    with variables_of() if Process.number is None else contextlib.nullcontext():
        comm = Communicator()
    ranks, who = os.environ.get("WORLD_SIZE", ""), "WORLD_SIZE says"
    if dist.is_available() and dist.is_initialized():
        ranks, who = str(dist.get_world_size()), "torch.distributed has"
    if ranks.isdecimal() and int(ranks) != comm.size:
        raise ArgumentError(
            f"{who} {ranks} ranks, and MPI has {comm.size}: start all ranks by one mpirun or torchrun, or give a communicator of "
            "those that you want"
        )
    return comm


def interfaces() -> Dict[str, str]:
    """Returns the IPv4 addresses of this host's network interfaces, and their names. Linux."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none
                reply = fcntl.ioctl(one, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[socket.inet_ntoa(reply[20:24])] = name
    return found


def own_address(towards: str = "192.0.2.1") -> str:
    """Returns the address from which this host sends to another; sends nothing. This is not the address of its name, which may be
    127.0.1.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((towards, 9))
            return str(one.getsockname()[0])
        except OSError:  # no route
            return next((address for address in interfaces() if not address.startswith("127.")), "127.0.0.1")


def init_process_group(comm: Optional[Communicator] = None, backend: str = "gloo", **keywords: Any) -> Communicator:
    """Collective. Calls torch.distributed.init_process_group for the ranks of `comm`, by default all; needs no MASTER_ADDR. Rank 0
    listens, and tells the others where. Gloo takes the network interface that leads to rank 0, unless GLOO_SOCKET_IFNAME names one;
    that variable is set then. Returns the communicator, for ddp_hook."""
    if comm is None:
        comm = everybody()
    if dist.is_initialized():
        raise StateError("torch.distributed is initialised already: for a communicator of its ranks, call weir.Communicator()")
    alone = len(comm.group("node")) == comm.size
    store = problem = None
    address = b""
    if comm.rank == 0:
        try:
            host = "127.0.0.1" if alone else own_address()
            store = dist.TCPStore(host, 0, comm.size, True, wait_for_workers=False)
            address = f"{host} {store.port}".encode()
        except (OSError, RuntimeError) as error:  # the others wait to hear of it
            problem = error
    address = comm.broadcast(address)
    if not address:
        raise StateError("rank 0 cannot listen: see that its host has a network interface with an address") from problem
    host, port = address.decode().split()
    name = interfaces().get(host if alone or comm.rank == 0 else own_address(host))
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    if store is None:
        store = dist.TCPStore(host, int(port), comm.size, False)
    dist.init_process_group(backend, store=store, rank=comm.rank, world_size=comm.size, **keywords)
    return comm


def register_backend() -> None:
    """Tells torch.distributed of the backend "weir": an entry point of the package, which torch.distributed calls when it meets the
    name. Importing weir.torch does the same."""
    version = torch.__version__.split("+")[0]
    old = tuple(int(part) for part in version.split(".")[:2]) < NEEDED

    def create(*arguments: Any) -> Any:
        if old:
            raise UnsupportedError(f"the backend weir needs PyTorch {NEEDED[0]}.{NEEDED[1]} or later, and this is {version}")
        from . import _torch_group

        return _torch_group.create(*arguments)

    if dist.is_available() and not hasattr(dist.Backend, "WEIR"):
        dist.Backend.register_backend("weir", create, **({} if old else {"extended_api": True, "devices": ["cpu"]}))
