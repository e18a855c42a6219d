"""Shards made by an Apache Beam pipeline, through TFDS: for corpora beyond one machine."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from dtmt_tf.data.check import TRAIN
from dtmt_tf.data.shards import SIDES, TEXTS, Example, Preparation
from dtmt_tf.errors import UserError

DIRECT_RUNNER = "DirectRunner"  # Beam's own, on this machine


@dataclass(eq=False)
class TokenizedPairsConfig(tfds.core.BuilderConfig):
    """What `TokenizedPairs` writes.

    Args:
        preparation: Gives the pairs.
        shards: Which of its shards.
    """

    preparation: Preparation | None = None
    shards: Sequence[int] = ()


class TokenizedPairs(tfds.core.ShardBasedBuilder):
    """Writes shards of a `Preparation` as those of a TFDS data set, each a task for a worker."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        ids = tfds.features.Tensor(shape=(None,), dtype=np.int32)
        features: dict[str, Any] = dict.fromkeys(SIDES, ids)
        if self.builder_config.preparation.with_text:
            features |= dict.fromkeys(TEXTS, tfds.features.Text())
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        config = self.builder_config
        return {TRAIN: [functools.partial(_examples, config.preparation, k) for k in config.shards]}


def _examples(preparation: Preparation, shard: int) -> Iterator[tuple[int, Example]]:
    yield from enumerate(preparation.examples(shard))


def write_shards(options: Sequence[str], preparation: Preparation, shards: Sequence[int]) -> None:
    """Writes shards in a Beam pipeline.

    Args:
        options: Beam's own, such as `runner=FlinkRunner`. Workers must see the preparation's folder
            and the corpus under the paths that they have here.
        preparation: Gives the pairs.
        shards: Which of its shards.

    Raises:
        UserError: If Beam is not installed or has no such runner.
    """
    try:
        from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
        from apache_beam.runners.runner import create_runner
    except ImportError as error:
        raise UserError("--beam-options needs Apache Beam: pip install apache-beam") from error
    beam = PipelineOptions([f"--{option}" for option in options])
    try:
        runner = create_runner(beam.view_as(StandardOptions).runner or DIRECT_RUNNER)
    except ValueError as error:
        raise UserError(f"--beam-options: {error}") from error
    config = TokenizedPairsConfig(name="pairs", preparation=preparation, shards=shards)
    builder = TokenizedPairs(
        config=config, data_dir=preparation.pipeline, file_format="array_record"
    )
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(
            beam_runner=runner,
            beam_options=beam,
            try_download_gcs=False,
        )
    )
    written = builder.info.splits[TRAIN].filepaths
    for shard, path in zip(shards, written, strict=True):
        Path(path).replace(preparation.path(shard))
        preparation.add(shard)
    shutil.rmtree(preparation.pipeline)
