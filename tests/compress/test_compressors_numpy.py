"""Every compressor except PowerSGD against its paper's definition, in NumPy: the decoded message of one rank, and its residual."""
import numpy as np
import pytest

import weir

ROWS = {row.name: row for row in weir.compressors()}
CARRIERS = {"sparse": "topk_allgather", "packed": "packed_allgather", "linear": "dense_ring"}
DENSITY = 0.05
SIZES = (1, 7, 1000, 4097, 100003)


@pytest.fixture(scope="module")
def comm():
    return weir.Communicator()


def make(comm, compressor, count, parameters="", **keywords):
    algorithm = CARRIERS[ROWS[compressor].carriage]
    return weir.AllreducePlan(
        comm, count=count, algorithm=algorithm, compressor=compressor, compressor_parameters=parameters, **{"density": DENSITY, **keywords}
    )


def sent_by(plan, gradient):
    return weir.decode(plan.encode(gradient))


def gradient_of(count, step=0):
    """Returns values with heavy tails, like gradients, neither symmetric nor around zero, with some exact zeros."""
    random = np.random.default_rng([count, step])
    gradient = 0.01 * random.standard_normal(count) ** 3 + 0.002
    gradient[random.random(count) < 0.02] = 0
    return gradient.astype(np.float32)


def by_bucket(reference, m, bucket):
    """Applies `reference` to each `bucket` elements, or to all if `bucket` is 0."""
    bucket = bucket or m.size
    return np.concatenate([reference(m[at:at + bucket]) for at in range(0, m.size, bucket)])


def nearest(values, levels):
    """Returns the nearest of ascending levels for each value."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, values)]


def largest(m, k):
    """Returns the places of the k largest magnitudes, ascending."""
    return np.sort(np.argsort(-np.abs(m), kind="stable")[:k])


def kept(m, places):
    sent = np.zeros_like(m)
    sent[places] = m[places]
    return sent


def k_of(count):
    return max(1, round(DENSITY * count))


# --- What m, the gradient with the residual, is delivered as: one reference for each deterministic compressor ---------------------

def dynamic_tree():
    """The magnitudes of Dettmers 2016, section 3: after the sign, e zeros and a one are 10^-e, and the 6 - e bits left halve [0.1, 1]."""
    magnitudes = [np.zeros(1)]
    for e in range(7):
        edges = np.linspace(0.1, 1, 2 ** (6 - e) + 1)
        magnitudes.append(10.0**-e * (edges[1:] + edges[:-1]) / 2)
    return np.sort(np.concatenate(magnitudes))


def scaled(m, numbers, one=None):
    """The nearest of plus and minus `numbers`, ascending from 0, of which `one`, or the last, stands for the largest magnitude."""
    scale = np.abs(m).max() / (one or numbers[-1])
    return np.sign(m) * scale * nearest(np.abs(m) / (scale or 1), numbers)


def eight_bit(m, bucket=0):
    """Dettmers 2016, section 3: the nearest 8-bit float with a dynamic exponent, where 1, which has no code, is the largest magnitude."""
    levels = dynamic_tree()
    return by_bucket(lambda m: scaled(m, levels, 1), m, bucket)


def one_bit_sgd(m, bucket=2048):
    """Seide et al. 2014, section 3: the mean of the negative elements for these, that of the others for the others."""

    def of_bucket(m):
        sent = np.empty_like(m)
        for side in (m < 0, m >= 0):
            sent[side] = m[side].mean() if side.any() else 0
        return sent

    return by_bucket(of_bucket, m, bucket)


def sign_sgd(m):
    """Bernstein et al. 2018, Algorithm 3: what a worker sends is sign(g). One bit has no third value: zero counts as positive."""
    return np.where(m < 0, -1.0, 1.0)


def ef_sign_sgd(m, bucket=0):
    """Karimireddy et al. 2019, Algorithm 1: |m|_1 / d times the signs."""
    return by_bucket(lambda m: sign_sgd(m) * np.abs(m).mean(), m, bucket)


def inceptionn(m, bound=10):
    """Li et al. 2018, section V: 1 and more as it is, below 2^-bound nothing, between them a sign and 7 or 15 bits of fixed point.

    The paper cuts bits off. Weir rounds, in steps of at most 2^-bound, and takes 7 bits where these are enough."""
    magnitudes, sent = np.abs(m), m.copy()
    for bits, step in ((15, 2.0 ** -max(bound, 15)), (7, 2.0**-bound)):
        fits = magnitudes < min(1, step * 2**bits)
        sent[fits] = np.sign(m[fits]) * step * np.minimum(np.rint(magnitudes[fits] / step), 2**bits - 1)
    sent[magnitudes < 2.0**-bound] = 0
    return sent


def block_quantise(m, format="int8", bucket=256):
    """As in ZeRO++ (Wang et al. 2023): the nearest of -127 to 127, of -7 to 7, or as in torchft of the numbers of FP8 E4M3."""
    if format == "fp8":
        normal = [2.0**e * (1 + f / 8) for e in range(-6, 9) for f in range(8)][:-1]  # the last code is NaN
        numbers = np.array([2.0**-6 * f / 8 for f in range(8)] + normal)
    else:
        numbers = np.arange(128.0 if format == "int8" else 8.0)
    return by_bucket(lambda m: scaled(m, numbers), m, bucket)


def error_bounded(m, absolute=1e-4, relative=0):
    """Weir's own: the nearest multiples of the largest power of two that is at most twice the bound."""
    unit = 2 ** np.floor(np.log2(2 * (relative * np.ptp(m) if relative else absolute))) if np.ptp(m) or not relative else 2.0**-149
    return np.round(m / unit) * unit


def lossless(m, type="float32"):
    """The same; as bfloat16 the upper 16 bits, rounded to the nearest, of two as near to the even one."""
    if type == "float32":
        return m
    bits = m.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def top_k(m):
    """Aji and Heafield 2017: the k largest magnitudes."""
    return kept(m, largest(m, k_of(m.size)))


def threshold_v(m, value=0.01):
    """Dutta et al. 2020: magnitudes above v; the k largest at most, which is Weir's."""
    return kept(m, [i for i in largest(m, k_of(m.size)) if abs(m[i]) > value])


def cosines(n):
    """The orthonormal DCT-II as a matrix."""
    rows = np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n) * np.sqrt(2 / n)
    rows[0] /= np.sqrt(2)
    return rows


def bins(values, bits):
    """SparseLoCo (Sarfi et al. 2025): 2^bits bins over 6 standard deviations around the mean; a value becomes the mean of its bin."""
    width = 6 * values.std() / 2**bits
    codes = np.clip(np.floor((values - values.mean()) / (width or 1)) + 2 ** (bits - 1), 0, 2**bits - 1).astype(int)
    return (np.bincount(codes, values) / np.maximum(1, np.bincount(codes)))[codes]


def chunked_topk(m, chunk=4096, k=64, values="bits2", index="packed", transform="none"):
    """DeMo (Peng et al. 2024), Algorithm 1, and SparseLoCo (Sarfi et al. 2025): the k largest of each chunk, or of its 2-D DCT.

    Weir's own: a shorter last chunk is not transformed, and sends fewer in proportion; up to 4,096 entries share the means of bins."""
    k = min(k, chunk)
    rows = 2 ** (int(np.log2(chunk)) // 2)  # a square, or two beside each other
    down, across = cosines(rows), cosines(chunk // rows)
    parts = [m[at:at + chunk] for at in range(0, m.size, chunk)]
    if transform == "dct":
        parts = [(down @ x.reshape(rows, -1) @ across.T).ravel() if x.size == chunk else x for x in parts]
    places = [largest(x, max(1, k * x.size // chunk)) for x in parts]
    chosen = [x[at] for x, at in zip(parts, places)]
    together = 2 ** int(np.log2(max(1, 4096 // k))) if values in ("bits2", "bits4") else 1
    sent = []
    for first in range(0, len(chosen), together):
        group = slice(first, first + together)
        what = np.concatenate(chosen[group])
        what = {"bits2": lambda: bins(what, 2), "bits4": lambda: bins(what, 4), "float32": lambda: what,
                "bits8": lambda: scaled(what, np.arange(128.0))}[values]()
        for x, at, part in zip(parts[group], places[group], np.split(what, np.cumsum([x.size for x in chosen[group]])[:-1])):
            result = np.zeros(x.size)
            result[at] = part
            sent.append((down.T @ result.reshape(rows, -1) @ across).ravel() if transform == "dct" and x.size == chunk else result)
    return np.concatenate(sent)


def adaptive_threshold(m, alpha=0.01):
    """Dryden et al. 2016, section 3: alpha of the negative and alpha of the other elements, the farthest from zero, as two means."""
    sent = np.zeros(m.size)
    for side in (np.flatnonzero(m < 0), np.flatnonzero(m >= 0)):
        places = side[largest(m[side], int(np.ceil(alpha * side.size)))]
        sent[places] = m[places].mean() if places.size else 0
    return sent


DETERMINISTIC = [
    (eight_bit, ""), (eight_bit, "bucket=64"),
    (one_bit_sgd, ""), (one_bit_sgd, "bucket=0"), (one_bit_sgd, "bucket=64"),
    (sign_sgd, ""),
    (ef_sign_sgd, ""), (ef_sign_sgd, "bucket=64"),
    (inceptionn, ""), (inceptionn, "bound=3"), (inceptionn, "bound=20"),
    (block_quantise, ""), (block_quantise, "bucket=0"), (block_quantise, "format=int4"), (block_quantise, "format=fp8,bucket=64"),
    (error_bounded, ""), (error_bounded, "absolute=0.01"), (error_bounded, "relative=0.001"),
    (lossless, ""), (lossless, "type=bfloat16"),
    (top_k, ""),
    (threshold_v, ""), (threshold_v, "value=0.1"),
    (chunked_topk, ""), (chunked_topk, "values=bits4"), (chunked_topk, "values=bits8,index=rice"), (chunked_topk, "values=float32"),
    (chunked_topk, "transform=dct,values=float32"), (chunked_topk, "transform=dct,chunk=128,k=5"), (chunked_topk, "chunk=64,k=64"),
    (adaptive_threshold, ""), (adaptive_threshold, "alpha=0.3"),
]
EXACT = (sign_sgd, inceptionn, error_bounded, lossless, top_k, threshold_v)  # nothing is summed, and nothing scaled


def named(parameters):
    pairs = (pair.split("=") for pair in parameters.split(",") if pair)
    return {name: float(text) if "." in text else int(text) if text.isdigit() else text for name, text in pairs}


def agrees(sent, expected, m, exact=False):
    """Equal; or within what float32 rounds in scales, sums and transforms, which may also turn what lies halfway between two levels."""
    if exact:
        assert np.array_equal(sent, expected.astype(np.float32))
        return
    close = np.isclose(sent, expected, rtol=1e-5, atol=2e-7 * np.abs(m).max())
    halfway = np.isclose(np.abs(sent - m), np.abs(expected - m), rtol=1e-5, atol=0)
    assert not np.flatnonzero(~close & ~halfway).size and (~close).sum() <= m.size / 10000


@pytest.mark.each("reference")
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("reference, parameters", DETERMINISTIC, ids=lambda value: getattr(value, "__name__", value or "-"))
def test_what_is_sent_and_kept(comm, reference, parameters, count):
    """Three steps, of which the last one has only the residual to send."""
    name = reference.__name__
    with make(comm, name, count, parameters) as plan:
        residual = np.zeros(count, np.float32)
        for step in range(3):
            gradient = gradient_of(count, step) * (step < 2)
            m = residual + gradient
            sent = sent_by(plan, gradient)
            agrees(sent, reference(m.astype(np.float64), **named(parameters)), m, reference in EXACT)
            if ROWS[name].feedback:
                residual = m - sent
                assert np.array_equal(plan.residual.values, residual)
            else:
                assert plan.residual.values.size == 0


@pytest.mark.parametrize("bound", (1, 5, 10, 16, 30))
def test_inceptionn_of_all_magnitudes(comm, bound):
    """Within the bound, in as many bits as the paper has: 2 of a tag, and 0, 8, 16 or 32."""
    random = np.random.default_rng(bound)
    for low in range(-35, 4):
        m = (random.choice([-1, 1], 4096) * 2.0 ** (low + random.random(4096))).astype(np.float32)
        with make(comm, "inceptionn", m.size, f"bound={bound}") as plan:
            data, nothing = plan.encode(m), plan.encode(np.zeros_like(m))
        sent = weir.decode(data)
        assert np.array_equal(sent, inceptionn(m.astype(np.float64), bound).astype(np.float32))
        assert (np.abs(sent - m) <= 2.0**-bound).all() and (low < 0 or np.array_equal(sent, m))
        assert (data.size - nothing.size) * 8 in [m.size * bits for bits in ((0,) if low < -bound else (32,) if low >= 0 else (8, 16, 32))]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.carriage != "linear"])
@pytest.mark.parametrize("count", (1, 1000))
def test_zeros_stay_zeros(comm, name, count):
    """Nothing is divided by a norm of 0. Signs have no zero."""
    with make(comm, name, count) as plan:
        for _ in range(2):
            assert (sent_by(plan, np.zeros(count, np.float32)) == (name in ("sign_sgd", "signum"))).all()
            assert not plan.residual.values.any()


def test_memory_with_decay_and_gain(comm):
    """GRACE, section IV: phi = beta m + gamma g, and psi = phi less what was sent."""
    with make(comm, "top_k", 1000, feedback_decay=0.75, feedback_gain=0.5) as plan:  # exact in binary
        residual = np.zeros(1000, np.float32)
        for step in range(5):
            m = np.float32(0.75) * residual + np.float32(0.5) * gradient_of(1000, step)
            sent = sent_by(plan, gradient_of(1000, step))
            agrees(sent, top_k(m), m)
            residual = m - top_k(m)
            agrees(plan.residual.values, residual, m)


def test_lossless_keeps_every_bit(comm):
    """Subnormals, -0, the largest numbers."""
    bits = np.random.default_rng(5).integers(0, 2**32, 100003, dtype=np.uint32)
    bits[:3] = 0x80000000, 1, 0x7F7FFFFF
    values = bits.view(np.float32)
    bits[~np.isfinite(values)] = 0
    with make(comm, "lossless", values.size) as plan:
        assert np.array_equal(sent_by(plan, values).view(np.uint32), bits)


# --- Velocities ------------------------------------------------------------------------------------------------------------------

def signum(velocity, gradient, beta):
    """Bernstein et al. 2018, Algorithm 2: v = beta v + (1 - beta) g, of which the signs are sent."""
    velocity[:] = beta * velocity + (1 - beta) * gradient
    return sign_sgd(velocity)


@pytest.mark.parametrize("beta", (0, 0.5, 0.9))
@pytest.mark.parametrize("count", SIZES)
def test_signum(comm, count, beta):
    velocity = np.zeros(count)
    with make(comm, "signum", count, f"momentum={beta}") as plan:
        for step in range(6):
            expected = signum(velocity, gradient_of(count, step).astype(np.float64), beta)
            clear = (np.abs(velocity) > 1e-7 * np.abs(velocity).max()) | (velocity == 0)  # others, rounding may turn
            assert np.array_equal(sent_by(plan, gradient_of(count, step))[clear], expected[clear])
            assert clear.mean() > 0.99


def dgc(velocity, waiting, gradient, momentum=0.9, masking=1, clip=0):
    """Lin et al. 2018, Algorithm 4 on one rank: clipping, momentum correction, the k largest, masking. Changes the two states."""
    norm = np.linalg.norm(gradient)
    if clip and norm > clip:
        gradient = gradient * (clip / norm)
    velocity[:] = momentum * velocity + gradient
    waiting += velocity
    places = largest(waiting, k_of(waiting.size))
    sent = kept(waiting, places)
    waiting[places] = 0
    if masking:
        velocity[places] = 0
    return sent


@pytest.mark.parametrize("parameters", ("", "momentum=0.5", "masking=0", "clip=0.05", "momentum=0"))
@pytest.mark.parametrize("count", SIZES)
def test_dgc(comm, count, parameters):
    velocity, residual = np.zeros(count), np.zeros(count)
    with make(comm, "dgc", count, parameters) as plan:
        for step in range(6):
            gradient = gradient_of(count, step)
            expected = dgc(velocity, residual, gradient.astype(np.float64), **named(parameters))
            # Six roundings of velocities and sums of them.
            np.testing.assert_allclose(sent_by(plan, gradient), expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
            np.testing.assert_allclose(plan.residual.values, residual, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


# --- Random compressors: what x, the gradient or what it is clipped to, lies between, of which one is sent ------------------------

def qsgd(x, levels=7, bucket=512):
    """Alistarh et al. 2017, section 3.1: |x| is rounded to one of the two nearest multiples of |bucket|_2 / s."""
    unit = by_bucket(lambda x: np.full(x.size, np.linalg.norm(x) / levels), x, bucket)
    below = np.floor(np.abs(x) / unit)
    return x, np.sign(x) * unit * below, np.sign(x) * unit * (below + 1)


def natural(x):
    """Horvath et al. 2019, definition 1: |x| is rounded to one of the two nearest powers of two."""
    _, exponent = np.frexp(x)
    below = np.where(x == 0, 0, np.sign(x) * 2.0 ** (exponent - 1))
    return x, below, np.where(x == below, x, 2 * below)


def terngrad(x, clip=2.5, bucket=0):
    """Wen et al. 2017, section 3: 0, or sign(x) max |x|, after clipping (equation 11) at 2.5 standard deviations, Weir's from zero."""

    def clipped(x):
        bound = clip * np.sqrt((x**2).mean())
        return np.clip(x, -bound, bound)

    x = by_bucket(clipped, x, bucket) if clip else x
    return x, np.zeros_like(x), np.sign(x) * by_bucket(lambda x: np.full(x.size, np.abs(x).max()), x, bucket)


def random_k(x, unbiased=1):
    """Stich et al. 2018, definition 2.1: each entry with probability k / n, and here times n / k."""
    return x, np.zeros_like(x), x * (x.size / k_of(x.size))


def draws_of(comm, name, x, parameters, seed, rounds):
    """What `rounds` iterations send, or on one rank deliver, of the same gradient."""
    with make(comm, name, x.size, parameters, seed=seed, error_feedback="none") as plan:
        for _ in range(rounds):
            if ROWS[name].carriage == "linear":
                update = x.copy()
                plan.run(update)
                yield update
            else:
                yield sent_by(plan, x)


RANDOM = [
    ("qsgd", qsgd, ""), ("qsgd", qsgd, "levels=1,bucket=64"), ("qsgd", qsgd, "levels=127,bucket=0"),
    ("natural", natural, ""),
    ("terngrad", terngrad, ""), ("terngrad", terngrad, "clip=0"), ("terngrad", terngrad, "clip=1.0,bucket=64"),
    ("random_k", random_k, "unbiased=1"), ("shared_random_k", random_k, "unbiased=1"),
]


@pytest.mark.each("name")
@pytest.mark.parametrize("name, reference, parameters", RANDOM, ids=lambda value: "" if callable(value) else value or "-")
def test_random_values_are_allowed_and_right_on_average(comm, name, reference, parameters):
    """Each draw is one of two values, a and b, and the mean is x; so its variance is (x - a) (b - x).

    Means of T draws are then within Bernstein's bound, which each misses with a probability of e^-21. The mean square of their
    errors in standard deviations is 1, within 6 sqrt(2 / n) for n elements of which neither value is rare; a bias of 2 % of a
    standard deviation would add 0.8."""
    gradient = gradient_of(1000)
    x, a, b = reference(gradient.astype(np.float64), **named(parameters))
    total, rounds, all_draws = np.zeros(x.size), 400, set()
    for seed in range(1, 6):
        for sent in draws_of(comm, name, gradient, parameters, seed, rounds):
            is_a, is_b = np.isclose(sent, a, rtol=1e-5, atol=0), np.isclose(sent, b, rtol=1e-5, atol=0)
            assert (is_a | is_b).all()
            total += sent
            all_draws.add(sent.tobytes())
    assert len(all_draws) == 5 * rounds  # by seed and iteration
    draws, variance, span = 5 * rounds, (x - a) * (b - x), np.abs(b - a)
    errors = total / draws - x
    assert (np.abs(errors) <= np.sqrt(42 * variance / draws) + 7 * span / draws + 1e-6 * np.abs(b)).all()
    neither_rare = variance > 0.01 * span**2
    scores = errors[neither_rare] / np.sqrt(variance[neither_rare] / draws)
    assert scores.size > 100 and abs((scores**2).mean() - 1) < 6 * np.sqrt(2 / scores.size)


def test_variances_are_within_the_papers_bounds():
    """Of the references above: QSGD min(n / s^2, sqrt(n) / s) |x|^2 (lemma 3.1), natural compression x^2 / 8 (theorem 3)."""
    x = gradient_of(4097).astype(np.float64)
    for levels in (1, 7, 127):
        _, a, b = qsgd(x, levels, bucket=0)
        assert ((x - a) * (b - x)).sum() <= min(x.size / levels**2, np.sqrt(x.size) / levels) * (x**2).sum()
    _, a, b = natural(x)
    assert ((x - a) * (b - x) <= x**2 / 8 + 1e-20).all()


WITH_MEMORY = [
    ("qsgd", qsgd, "levels=127,bucket=512"), ("natural", natural, ""), ("random_k", random_k, "unbiased=1"), ("shared_random_k", random_k, "unbiased=1"),
]


@pytest.mark.each("name")
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("name, reference, parameters", WITH_MEMORY, ids=lambda value: "" if callable(value) else value or "-")
def test_random_values_of_any_size_and_with_memory(comm, name, reference, parameters, count):
    """Of the residual, too, only values that the paper allows, and nothing is lost."""
    of_entries = name.endswith("random_k")
    with make(comm, name, count, "" if of_entries else parameters, error_feedback="residual") as plan:
        residual = np.zeros(count, np.float32)
        for step in range(3):
            gradient = gradient_of(count, step)
            m = residual + gradient
            if ROWS[name].carriage == "linear":
                sent = gradient.copy()
                plan.run(sent)
            else:
                sent = sent_by(plan, gradient)
            _, a, b = reference(m.astype(np.float64), **named(parameters))
            b = m if of_entries else b  # with memory, they travel as they are
            assert (np.isclose(sent, a, rtol=1e-5, atol=0) | np.isclose(sent, b, rtol=1e-5, atol=0)).all()
            residual = m - sent
            assert np.array_equal(plan.residual.values, residual)


@pytest.mark.parametrize("name", ("random_k", "shared_random_k"))
def test_as_many_random_places_as_k(comm, name):
    """k of them, all different, in every iteration."""
    for count in SIZES:
        for sent in draws_of(comm, name, np.ones(count, np.float32), "", 1, 5):
            assert np.count_nonzero(sent) == k_of(count) and set(sent) <= {0, 1}


def test_natural_of_all_magnitudes(comm):
    """Powers of two themselves are kept; nothing overflows, nor vanishes from 2^-126 on."""
    powers = 2.0 ** np.arange(-126, 128)
    x = np.concatenate([powers, -powers, 1.5 * powers[:-1]]).astype(np.float32)
    _, a, b = natural(x.astype(np.float64))
    for sent in draws_of(comm, "natural", x, "", 1, 20):
        assert ((sent == a) | (sent == b)).all()
    ends = np.repeat(np.float32([0.3 * 2.0**-126, -1.5 * 2.0**127]), 10000)
    sent = next(draws_of(comm, "natural", ends, "", 1, 1))
    assert set(sent[:10000]) == {0, 2.0**-126} and abs(sent[:10000].mean() * 2.0**126 - 0.3) < 0.03  # subnormals: 0 or the least
    assert (sent[10000:] == -(2.0**127)).all()  # 2^128 is no float


# --- SketchML --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("buckets", (16, 128))
@pytest.mark.parametrize("count", SIZES)
def test_sketchml_is_of_quantiles(comm, count, buckets):
    """Jiang et al. 2018, sections 3.1 and 3.2: zeros are not sent; of either sign, each of q buckets of equal numbers is its mean.

    A mean of elements, and quantiles of a sample of 8,192, are Weir's: with more elements a bucket has less than twice its share."""
    residual = np.zeros(count, np.float32)
    with make(comm, "sketchml", count, f"buckets={buckets}") as plan:
        for step in range(3):
            gradient = gradient_of(count, step)
            m = residual + gradient
            sent = sent_by(plan, gradient)
            assert np.array_equal(np.sign(sent), np.sign(m))
            for side in (m > 0, m < 0):
                order = np.argsort(m[side])
                values, sizes = np.unique(sent[side], return_counts=True)
                assert (np.diff(sent[side][order]) >= 0).all() and values.size <= buckets
                share = side.sum() / buckets
                if count > 8192:
                    assert sizes.max() < 2 * share and values.size > 0.9 * buckets
                elif values.size:
                    assert sizes.max() <= np.ceil(share)
                means = np.array([m[side][sent[side] == value].astype(np.float64).mean() for value in values])
                np.testing.assert_allclose(values, means, rtol=1e-5)
            residual = m - sent
            assert np.array_equal(plan.residual.values, residual)


@pytest.mark.parametrize("buckets", (16, 128))
def test_min_max_sketch_never_enlarges(comm, buckets):
    """Jiang et al. 2018, section 3.3: the least is kept where hashes meet, and the largest of the rows taken: buckets only fall."""
    m = gradient_of(100003)
    plain, sketched = (next(draws_of(comm, "sketchml", m, f"buckets={buckets},codes={codes}", 1, 1)) for codes in ("plain", "minmax"))
    assert np.array_equal(np.sign(sketched), np.sign(m))
    assert (np.abs(sketched) <= np.abs(plain)).all()
    assert np.isin(sketched, plain).all()
    values = np.unique(np.abs(plain[m > 0]))
    fall = np.searchsorted(values, np.abs(plain[m > 0])) - np.searchsorted(values, np.abs(sketched[m > 0]))
    assert (fall == 0).mean() > 0.25 and fall.max() < max(2, buckets // 8)  # 8 groups keep it near, as in the paper's experiments


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
