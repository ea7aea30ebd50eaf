#!/usr/bin/env python3
"""Writes tables of the tensors of well-known networks: names, element counts and multiply-adds of one sample, in forward order.

The architectures are written out here from their papers; nothing is downloaded. MODEL.json beside this file holds {"model",
"source", "sample", "batch", "parameters", "tensors": [[name, elements, multiply-adds of the forward pass], ...]}. batch is the
number of samples of a step that a GPU of 16 GB takes. A backward pass takes twice as many multiply-adds. Multiply-adds are counted
for the weight that takes part in them. Biases and norms have one per output element. Products of activations with each other, as in
attention, are not counted.
`tables.py --check` lists the files that differ from what this program would write.
"""
import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Table:
    def __init__(self):
        self.tensors = []

    def add(self, name, elements, multiply_adds):
        self.tensors.append([name, elements, multiply_adds])

    def convolution(self, name, inputs, outputs, kernel, size, bias=False):
        """Adds a convolution of kernel x kernel, with an output of size x size."""
        self.add(f"{name}.weight", outputs * inputs * kernel**2, outputs * inputs * kernel**2 * size**2)
        if bias:
            self.add(f"{name}.bias", outputs, outputs * size**2)

    def linear(self, name, inputs, outputs, rows=1):
        self.add(f"{name}.weight", inputs * outputs, rows * inputs * outputs)
        self.add(f"{name}.bias", outputs, rows * outputs)

    def norm(self, name, channels, places):
        self.add(f"{name}.weight", channels, channels * places)
        self.add(f"{name}.bias", channels, channels * places)


def resnet(blocks):
    """He et al., CVPR 2016, table 1, with bottlenecks; the stride is in the 3 x 3 convolution, as in torchvision."""
    table = Table()
    table.convolution("conv1", 3, 64, 7, 112)
    table.norm("bn1", 64, 112**2)
    inputs = 64
    for stage, count in enumerate(blocks, 1):
        width, size = 64 * 2 ** (stage - 1), 56 // 2 ** (stage - 1)
        for block in range(count):
            name, before = f"layer{stage}.{block}", size * (2 if stage > 1 and block == 0 else 1)
            table.convolution(f"{name}.conv1", inputs, width, 1, before)
            table.norm(f"{name}.bn1", width, before**2)
            table.convolution(f"{name}.conv2", width, width, 3, size)
            table.norm(f"{name}.bn2", width, size**2)
            table.convolution(f"{name}.conv3", width, 4 * width, 1, size)
            table.norm(f"{name}.bn3", 4 * width, size**2)
            if block == 0:
                table.convolution(f"{name}.downsample.0", inputs, 4 * width, 1, size)
                table.norm(f"{name}.downsample.1", 4 * width, size**2)
            inputs = 4 * width
    table.linear("fc", 2048, 1000)
    return table


def vgg19():
    """Simonyan, Zisserman, ICLR 2015, table 1, configuration E."""
    table, inputs, place = Table(), 3, 0
    for size, outputs, count in ((224, 64, 2), (112, 128, 2), (56, 256, 4), (28, 512, 4), (14, 512, 4)):
        for _ in range(count):
            table.convolution(f"features.{place}", inputs, outputs, 3, size, bias=True)
            inputs, place = outputs, place + 2  # a ReLU after each
        place += 1  # pooling
    for place, inputs, outputs in ((0, 512 * 7 * 7, 4096), (3, 4096, 4096), (6, 4096, 1000)):
        table.linear(f"classifier.{place}", inputs, outputs)
    return table


def bert_base(words=128):
    """Devlin et al., NAACL 2019, section 3: 12 layers, 768, 12 heads, a vocabulary of 30,522; the encoder with its pooler."""
    table, width = Table(), 768
    for name, rows in (("word", 30522), ("position", 512), ("token_type", 2)):
        table.add(f"embeddings.{name}_embeddings.weight", rows * width, words * width)
    table.norm("embeddings.LayerNorm", width, words)
    for layer in range(12):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            table.linear(f"{name}.attention.self.{part}", width, width, words)
        table.linear(f"{name}.attention.output.dense", width, width, words)
        table.norm(f"{name}.attention.output.LayerNorm", width, words)
        table.linear(f"{name}.intermediate.dense", width, 4 * width, words)
        table.linear(f"{name}.output.dense", 4 * width, width, words)
        table.norm(f"{name}.output.LayerNorm", width, words)
    table.linear("pooler.dense", width, width)
    return table


def gpt2_large(words=1024):
    """Radford et al., 2019, table 2: 36 layers, 1,280, a vocabulary of 50,257 whose embeddings are the output layer, too."""
    table, width = Table(), 1280
    table.add("wte.weight", 50257 * width, words * 50257 * width)
    table.add("wpe.weight", 1024 * width, words * width)
    for layer in range(36):
        name = f"h.{layer}"
        table.norm(f"{name}.ln_1", width, words)
        table.linear(f"{name}.attn.c_attn", width, 3 * width, words)
        table.linear(f"{name}.attn.c_proj", width, width, words)
        table.norm(f"{name}.ln_2", width, words)
        table.linear(f"{name}.mlp.c_fc", width, 4 * width, words)
        table.linear(f"{name}.mlp.c_proj", 4 * width, width, words)
    table.norm("ln_f", width, words)
    return table


# name, table, what a sample is, how many samples a GPU of 16 GB takes at a time, and the number of parameters in the literature
MODELS = (
    ("resnet50", resnet((3, 4, 6, 3)), "an image of 224 x 224", 32, 25_557_032),
    ("resnet152", resnet((3, 8, 36, 3)), "an image of 224 x 224", 32, 60_192_808),
    ("vgg19", vgg19(), "an image of 224 x 224", 32, 143_667_240),
    ("bert_base", bert_base(), "128 words", 32, 109_482_240),
    ("gpt2_large", gpt2_large(), "1,024 words", 2, 774_030_080),
)
SOURCES = {"resnet50": resnet, "resnet152": resnet, "vgg19": vgg19, "bert_base": bert_base, "gpt2_large": gpt2_large}


def text_of(name, table, sample, batch, parameters):
    total = sum(elements for _, elements, _ in table.tensors)
    if total != parameters:
        sys.exit(f"tables.py: {name} has {total} parameters; it should have {parameters}")
    head = {"model": name, "source": SOURCES[name].__doc__, "sample": sample, "batch": batch, "parameters": parameters}
    head = json.dumps(head, indent=1)[:-2]
    return head + ',\n "tensors": [\n' + ",\n".join("  " + json.dumps(tensor) for tensor in table.tensors) + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    stale = []
    for name, table, sample, batch, parameters in MODELS:
        file, text = HERE / f"{name}.json", text_of(name, table, sample, batch, parameters)
        if not options.check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            stale.append(file.name)
    if stale:
        sys.exit(f"tables.py: not as this program writes them: {', '.join(stale)}; run tables.py")


if __name__ == "__main__":
    main()
