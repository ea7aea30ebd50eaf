"""Lists the compressors and how each is trained: its algorithm, and the optimizer's settings of its paper. All else is the
examples' default.

GRACE is Xu et al., ICDCS 2021. In its section V-A, compressors use the baseline's optimizer. In image classification, PowerSGD,
random-k, DGC, SignSGD and SIGNUM use SGD without momentum instead."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALGORITHMS = {"packed": "packed_reduce_scatter", "sparse": "oktopk", "linear": "dense_ring"}
ALSO_BY_ALLGATHER = ("qsgd", "block_quantise", "chunked_topk")
EXAMPLES = ("fashion_mnist", "language_model")


@dataclasses.dataclass(frozen=True)
class Setting:
    images: tuple = ()  # options of fashion_mnist
    words: tuple = ()  # options of language_model
    why: str = ""  # reason for the options
    misses: str = ""  # a paper's reason why it misses the quality of dense training
    misses_words: str = ""  # the same if only language_model misses it


# For compressors that leave much in the residual. The residual includes the learning rate (Karimireddy et al., 2019, Algorithm 1),
# as for top_k in these examples, and there is no momentum. A rate of 0.5 without momentum is in all a quarter of 0.2 with 0.9.
VANILLA = ("--optimizer", "before", "--momentum", "0", "--learning-rate", "0.5")
STALE = "without momentum, which multiplies what comes late by ten"
SIGNS = ("--optimizer", "after", "--momentum", "0", "--learning-rate", "0.001")
SIGNS_OF_WORDS = ("--dense-momentum", "0", "--dense-learning-rate", "0.00003")
RANDOM = "an entry waits n / k steps in the mean, 100 here, and what it delivers then is stale (Stich et al., 2018: the rate of SGD holds after O(n / k) steps and more)"
ADAM = ("behind the plan comes Adam. Error feedback makes up for errors where updates are linear in gradients, as those of SGD are; Adam divides by variances of gradients that come late or "
        "coarse (Tang et al., 1-bit Adam, ICML 2021)")


SETTINGS = {
    "chunked_topk": Setting(VANILLA, why=STALE + ": with it, an epoch ends at 72 % instead of 84 %", misses_words=ADAM),
    "top_k": Setting(misses_words=ADAM),
    "threshold_v": Setting(misses_words=ADAM),
    "dgc": Setting(("--momentum", "0"), why="it has a momentum of its own", misses_words=ADAM),
    "power_sgd": Setting(("--optimizer", "before", "--momentum", "0", "--learning-rate", "0.7", "--compressor-parameters", "columns=1024"),
                         ("--compressor-parameters", "columns=384"),
                         "without momentum: GRACE, section V-A; columns: the width of the largest layer, since the paper's matrices are layers", misses_words=ADAM),
    "ef_sign_sgd": Setting(VANILLA, why=STALE + ": with it, training diverges; Karimireddy et al. have none either", misses_words=ADAM),
    "one_bit_sgd": Setting(VANILLA, why=STALE + ": with it, training diverges", misses_words=ADAM),
    "adaptive_threshold": Setting(VANILLA, why=STALE + "; as one_bit_sgd, whose two means it has", misses_words=ADAM),
    "random_k": Setting(VANILLA, why="without momentum: GRACE, section V-A", misses=RANDOM),
    "shared_random_k": Setting(VANILLA, why="without momentum: GRACE, section V-A", misses=RANDOM),
    "sign_sgd": Setting(SIGNS, SIGNS_OF_WORDS,
                        "updates are of size 1, so that the learning rate is the step of every element: 1e-3 to 1e-4 (Bernstein et al., 2018), and less in a recurrent layer; without momentum "
                        "or Adam: GRACE, section V-A"),
    "signum": Setting(SIGNS, SIGNS_OF_WORDS, "as sign_sgd; it has a momentum of its own"),
}


@dataclasses.dataclass(frozen=True)
class Training:
    compressor: str
    travels_by: str
    memory: bool
    name: str
    setting: Setting

    def misses(self, example):
        return self.setting.misses or (self.setting.misses_words if example == "language_model" else "")

    def options(self, example):
        return self.setting.images if example == "fashion_mnist" else self.setting.words


def registry():
    """Returns (name, kind of exchange, whether error feedback is on by default) of every row, in the registry's order."""
    rows = {}
    for file in [*(ROOT / "src/compress").glob("*.cpp"), *(ROOT / "catalogue/compressors").glob("*.cpp")]:
        for name, body in re.findall(r"^const CompressorRow (\w+)_row = \{(.*?)^\};", file.read_text(), re.DOTALL | re.MULTILINE):
            carriage = re.search(r"\.carriage = Carriage::(\w+)", body)
            rows[name] = (name, carriage.group(1) if carriage else "packed", ".feedback = false" not in body)
    names = re.findall(r"WEIR_COMPRESSOR\((\w+)\)", (ROOT / "src/compress/compressors.def").read_text())
    return [rows[name] for name in names]


def trainings():
    """Returns all trainings: the dense one, compressors with error feedback, those without, and some by another algorithm."""
    rows = sorted(registry(), key=lambda row: not row[2])
    return [Training("none", "dense_ring", False, "none", Setting()),
            *(Training(name, ALGORITHMS[carriage], memory, name, SETTINGS.get(name, Setting())) for name, carriage, memory in rows),
            *(Training(name, "packed_allgather", memory, f"{name} by packed_allgather", SETTINGS.get(name, Setting()))
              for name, _, memory in rows if name in ALSO_BY_ALLGATHER)]


TRAININGS = trainings()
