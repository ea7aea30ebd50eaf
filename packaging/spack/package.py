# Weir for Spack 1.0 or later; see README.md beside it.
from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Weir(CMakePackage, CudaPackage):
    """Topology-aware sparse collectives for distributed training and HPC codes, in C++20 on MPI: the largest entries of a gradient
    cross the network, the rest stays behind in a residual and is not lost."""

    license("BSD-3-Clause")

    # Built from a source tree by `spack develop` or `spack dev-build`.
    version("0.1.0")

    variant("shared", default=True, description="Build libweir as a shared library")
    variant("fortran", default=True, description="Build the Fortran module")
    variant("hdf5", default=True, description="Checkpoints, and samples in HDF5 files")
    variant("jpeg", default=True, description="Samples in JPEG files")
    variant("tbb", default=True, description="Several threads a rank")
    variant("nccl", default=True, when="+cuda", description="Dense plans in CUDA memory through NCCL")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.11:", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")

    depends_on("mpi@3.1:")
    depends_on("hwloc@2:")
    depends_on("highway@1:")
    depends_on("fmt@9:")
    depends_on("zlib-api")
    depends_on("xxhash", type="build")
    depends_on("hdf5@1.10.5: ~mpi", when="+hdf5")
    depends_on("libjpeg-turbo", when="+jpeg")
    depends_on("intel-oneapi-tbb", when="+tbb")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.27.3-1:", when="+nccl")

    conflicts("%gcc@:11", msg="Weir is C++20 with coroutines: GCC 12 or later")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs, for example cuda_arch=90")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("WEIR_BUILD_TESTS", False),
            self.define("WEIR_BUILD_EXAMPLES", False),
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("WEIR_WITH_FORTRAN", "fortran"),
            self.define_from_variant("WEIR_WITH_CUDA", "cuda"),
            self.define_from_variant("WEIR_WITH_HDF5", "hdf5"),
            self.define_from_variant("WEIR_WITH_JPEG", "jpeg"),
            self.define_from_variant("WEIR_WITH_TBB", "tbb"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define_from_variant("WEIR_WITH_NCCL", "nccl"))
            args.append(self.define("WEIR_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args

    def setup_run_environment(self, env):
        if self.spec.satisfies("+nccl"):  # loaded at run time
            env.prepend_path("LD_LIBRARY_PATH", self.spec["nccl"].prefix.lib)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_command(self):
        Executable(self.prefix.bin.weir)("info")
