"""LARS and LAMB as the papers write them, in double precision, one layer at a time: slow, obvious, and of no other code."""
import numpy as np


class Lars:
    """You et al. 2018, Algorithm 1, with the learning rate of a layer as in CommLib's equation 11."""

    def __init__(self, weight_decay, momentum=0.9, trust_coefficient=1e-3, largest_rate=np.inf):
        self.weight_decay, self.momentum, self.gamma, self.largest = weight_decay, momentum, trust_coefficient, largest_rate
        self.velocity = {}

    def step(self, name, w, g, learning_rate, excluded):
        """The layer's new weights, and by which factor its learning rate differs."""
        beta = 0 if excluded else self.weight_decay
        norm_w, norm_g = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(g**2))
        rate = 1.0
        if not excluded and norm_w > 0 and norm_g > 0:
            rate = self.gamma * norm_w / (norm_g + beta * norm_w)
        rate = min(rate, self.largest)
        velocity = self.momentum * self.velocity.get(name, np.zeros_like(w)) + learning_rate * rate * (g + beta * w)
        self.velocity[name] = velocity
        return w - velocity, rate


class Lamb:
    """You et al. 2020, Algorithm 2, with phi(z) = z."""

    def __init__(self, weight_decay, beta1=0.9, beta2=0.999, epsilon=1e-6, largest_rate=np.inf):
        self.weight_decay, self.beta1, self.beta2, self.epsilon, self.largest = weight_decay, beta1, beta2, epsilon, largest_rate
        self.moments = {}

    def step(self, name, w, g, learning_rate, excluded):
        m, v, t = self.moments.get(name, (np.zeros_like(w), np.zeros_like(w), 0))
        t += 1
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g**2
        self.moments[name] = m, v, t
        r = (m / (1 - self.beta1**t)) / (np.sqrt(v / (1 - self.beta2**t)) + self.epsilon)
        update = r + (0 if excluded else self.weight_decay) * w
        norm_w, norm_u = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(update**2))
        rate = 1.0
        if not excluded and norm_w > 0 and norm_u > 0:
            rate = norm_w / norm_u
        rate = min(rate, self.largest)
        return w - learning_rate * rate * update, rate
