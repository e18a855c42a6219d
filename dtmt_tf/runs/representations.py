"""What a run's encoders make of sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from dtmt_tf.batched_lines import in_batches
from dtmt_tf.layers import masked_mean
from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.run import Run
from dtmt_tf.terminal import line_bar

Represent = Callable[[Sequence[str], str], list[np.ndarray]]


def representer(run: Run, model: TranslationModel) -> Represent:
    """Returns what gives the mean of each encoder's top states over sentences, <eos> included.

    Hao et al. (2019), "Modeling Recurrence for Transformer", Section 5.4 ("Linguistic Analyses").

    Args:
        run: The run.
        model: Its model.

    Returns:
        A function of N sentences in the run's source language, and of what its progress bar says,
        none if that is empty. It returns float32 `[N, H]` for each encoder, of its own width. Of a
        longer sentence than `data.max_length` its first sub-words are read, and <eos>.
    """
    source, most = run.vocabulary.source, run.experiment.data.max_length

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def means(texts: tf.Tensor) -> list[tf.Tensor]:
        ids = source.encode(source.read(texts), most).to_tensor()
        return [masked_mean(*each) for each in model.encodings(ids)]

    def answer(texts: list[str]) -> list[tuple[np.ndarray, ...]]:
        return list(zip(*(each.numpy() for each in means(tf.constant(texts))), strict=True))

    def represent(sentences: Sequence[str], progress: str) -> list[np.ndarray]:
        with line_bar(len(sentences), progress) as bar:
            batch_size = run.experiment.decoding.batch_size
            rows = in_batches(sentences, answer, batch_size, advance=bar.update)
        return [np.stack(each) for each in zip(*rows, strict=True)]

    return represent
