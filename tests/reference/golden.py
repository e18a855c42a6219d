"""Numbers that the authors' own programs computed, from `tests/fixtures/golden`.

Each file has random weights, a ragged batch, and what the program made of them: `source_ids`,
`target_ids`, `logits [B, T, V]` (meaningless past a sentence's end), losses, `weight:<name>` and
`gradient_norm:<name>`, the Euclidean norm of the gradient of the loss. Nothing is trained.
"""

import io
import lzma
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "fixtures/golden"


class Golden:
    """One file.

    Attributes:
        values: Everything but the weights and the gradients' norms, by name.
        weights: By the program's name.
        norms: Of the gradients, by the same names.
    """

    def __init__(self, name):
        packed = (FOLDER / f"{name}.npz.xz").read_bytes()
        arrays = dict(np.load(io.BytesIO(lzma.decompress(packed))))
        self.weights = {key[7:]: arrays.pop(key) for key in [*arrays] if key.startswith("weight:")}
        norms = [key for key in arrays if key.startswith("gradient_norm:")]
        self.norms = {key[14:]: float(arrays.pop(key)) for key in norms}
        self.values = arrays


class Places:
    """Where the program's weights lie in ours: each is a block of columns, or all, of a variable.

    Args:
        golden: The numbers.
    """

    def __init__(self, golden):
        self.golden = golden
        self.blocks = []  # (name, variable, index)

    def put(self, name, variable, index=...):
        """Says that a weight of theirs is `variable[index]`, and assigns it."""
        values = variable.numpy()
        values[index] = self.golden.weights[name].reshape(values[index].shape)
        variable.assign(values)
        self.blocks.append((name, variable, index))

    def check_complete(self, model, more=0):
        """Checks that each weight of theirs and every number of ours has its place.

        Args:
            model: Ours.
            more: How many numbers of ours theirs has not.
        """
        assert sorted(name for name, *_ in self.blocks) == sorted(self.golden.weights)
        assert sum(w.size for w in self.golden.weights.values()) + more == model.count_params()

    def largest_norm_error(self, variables, gradients):
        """Returns the largest relative difference of a gradient's norm from theirs."""
        found = {id(v): np.asarray(g) for v, g in zip(variables, gradients, strict=True)}
        errors = []
        for name, variable, index in self.blocks:
            norm, expected = np.linalg.norm(found[id(variable)][index]), self.golden.norms[name]
            errors.append(abs(norm - expected) / max(expected, 1e-3))
        return max(errors)
