"""The network to train: a residual network of 65 tensors on Fashion-MNIST at half its resolution. Gradients of its tensors differ
by orders of magnitude: filters of 3 x 3, scales and shifts of batch norms, one linear layer."""
import gzip

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FOLDER = "/usr/share/datasets/fashion-mnist"  # from Debian's package dataset-fashion-mnist


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs, momentum=None)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, momentum=None)
        self.skip = nn.Sequential()
        if inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs, momentum=None))

    def forward(self, x):
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.skip(x))


class ResNet20(nn.Sequential):
    """He et al., 2015, section 4.2, n = 3, with projections where the width doubles; the first layer has stride 2."""

    def __init__(self, width=8):
        layers = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width, momentum=None), nn.ReLU()]
        before = width
        for stage in range(3):
            for block in range(3):
                layers.append(Block(before, width << stage, 2 if stage and not block else 1))
                before = width << stage
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def load(part):
    """Returns the images of "train" or "t10k", 14 x 14 and standardised, and their labels."""
    def read(name, header):
        with gzip.open(f"{FOLDER}/{part}-{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)
    images = torch.from_numpy(read("images-idx3", 16).reshape(-1, 1, 28, 28).astype(np.float32))
    return functional.avg_pool2d((images - 73) / 90, 2), torch.from_numpy(read("labels-idx1", 8).astype(np.int64))


def accuracy(model, images, labels, known, chunk=500):
    """Returns the accuracy on held-out images. Batch norms take their means and variances from the images `known`, so that these do
    not depend on how training was divided among processes."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    right = 0
    with torch.no_grad():
        for begin in range(0, len(known), chunk):
            model(known[begin : begin + chunk])
        model.eval()
        for begin in range(0, len(images), chunk):
            right += int((model(images[begin : begin + chunk]).argmax(1) == labels[begin : begin + chunk]).sum())
        model.train()
    return right / len(labels)
