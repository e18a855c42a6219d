"""The Transformer with a second encoder that models recurrence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import GRUCell
from dtmt_tf.config import PAD_ID, ModelConfig, TrainingConfig
from dtmt_tf.layers import (
    FUSIONS,
    AdditiveAttention,
    AttentiveCell,
    AttentiveRecurrence,
    ByShape,
    Fusion,
    RecurrenceEncoder,
    RecurrenceLayer,
    SeedSeries,
    WordRecurrence,
    watching,
)
from dtmt_tf.models.recurrent_model import mean_gates
from dtmt_tf.models.transformer import PRESETS as TRANSFORMERS
from dtmt_tf.models.transformer import Transformer, TransformerConfig
from dtmt_tf.models.translation_model import Multiplications, elements
from dtmt_tf.settings import require, setting

DIRECTIONS = {"arn": 1, "biarn": 2, "birnn": 2}


@dataclass(frozen=True)
class RecurrenceTransformerConfig(TransformerConfig):
    """Settings of the Transformer with recurrence; the defaults are Hao et al.'s base model."""

    recurrence: str = setting(
        "biarn", "attention in one chain, in two, or word by word", choices=sorted(DIRECTIONS)
    )
    recurrence_layers: int = setting(1, "layers of the second encoder", at_least=1, at_most=1000)
    recurrence_steps: int = setting(
        8, "steps of arn and biarn; 0: the sentence's length", at_least=0, at_most=10_000
    )
    fusion: str = setting(
        "stack",
        "how decoder layers read the second encoder; columns: beside the first",
        choices=("columns", *sorted(FUSIONS)),
    )
    fusion_layers: str = setting(
        "top", "decoder layers reading the second encoder; columns: all", choices=("top", "all")
    )
    fusion_from_zero: bool = setting(
        False, "what the second encoder adds starts at 0, a gated sum's at 0.7 %"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.fusion != "columns" or self.recurrence == "birnn" or not self.recurrence_steps,
            "`model.fusion=columns` needs a state for each word: `model.recurrence=birnn` or "
            f"`model.recurrence_steps=0`. Received: {self.recurrence} and {self.recurrence_steps}.",
        )

    @property
    def recurrence_dim(self) -> int:
        """Width of the recurrence encoder's states."""
        return DIRECTIONS[self.recurrence] * self.model_dim

    @property
    def num_states(self) -> int:
        """How many states that encoder has, whatever the sentence; 0: as many as words."""
        return 0 if self.recurrence == "birnn" else self.recurrence_steps

    @property
    def unread(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with the reason."""
        found = {}
        if self.recurrence == "birnn":
            found["recurrence_steps"] = "birnn makes a step for each word"
        if self.fusion == "columns":
            found["fusion_layers"] = "all layers read columns"
            found["fusion_from_zero"] = "columns have no attention of their own"
        elif self.decoder_layers == 1:
            found["fusion_layers"] = "the decoder has one layer"
        return found

    def build(
        self, source_vocab_size: int, target_vocab_size: int, training: TrainingConfig
    ) -> RecurrenceTransformer:
        """Returns the model with its weights made; dropout rates and seed are `training`'s."""
        model = RecurrenceTransformer(self, source_vocab_size, target_vocab_size, training)
        model.build()
        return model


class RecurrenceTransformer(Transformer):
    """Hao et al. (2019), "Modeling Recurrence for Transformer", NAACL-HLT.

    A recurrence encoder reads the source embeddings, without a positional signal, beside the
    Transformer's encoder. Decoder layers attend to both, see `layers.Fusion`, or to the states of
    both side by side (`model.fusion=columns`; Chen et al., 2018, "multi-column encoder").

    What the paper leaves open follows from its count of new parameters, see RECURRENCE.md: GRUs
    have no bias (and, as in Cho et al., 2014, reset the state before the product), and are as wide
    as the Transformer; both chains share an attention with one matrix for queries and one for keys;
    the feed-forward part is as wide as both chains. Its norms stand after its parts, as in (7) and
    (8), wherever `model.pre_norm` puts those of the Transformer's layers.
    `training.word_dropout_rate` drops words of each encoder by itself.

    Args:
        config: Sizes and switches.
        source_vocab_size: Source vocabulary, V_s.
        target_vocab_size: Target vocabulary, V_t.
        training: Gives the dropout rates and the initialisers' seed.
    """

    config: RecurrenceTransformerConfig

    def __init__(
        self,
        config: RecurrenceTransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int,
        training: TrainingConfig,
    ) -> None:
        super().__init__(config, source_vocab_size, target_vocab_size, training)
        # not of the series that the Transformer's first weights are drawn from
        series = SeedSeries(1_000_003 + training.seed)
        matrices = ByShape(keras.initializers.GlorotUniform(seed=series))

        def gru() -> GRUCell:
            options = {"use_layer_norm": False, "use_bias": False, "reset_after": False}
            return GRUCell(config.model_dim, initializer=matrices, name="gru", **options)

        def recurrence(input_dim: int) -> WordRecurrence | AttentiveRecurrence:
            cells = [gru() for _ in range(DIRECTIONS[config.recurrence])]
            if config.recurrence == "birnn":
                return WordRecurrence(cells, name="recurrence")
            attention = AdditiveAttention(
                input_dim,
                use_layer_norm=False,
                use_bias=False,
                initializer=matrices,
                name="attention",
            )
            attentive = [AttentiveCell(cell, attention, name="arn") for cell in cells]
            return AttentiveRecurrence(attentive, config.recurrence_steps, name="recurrence")

        self.recurrence = RecurrenceEncoder(
            [
                RecurrenceLayer(
                    recurrence(config.model_dim if k == 1 else config.recurrence_dim),
                    config.filter_dim,
                    is_first=k == 1,
                    dropout_rate=training.candidate_dropout_rate,
                    initializer=matrices,
                    name=f"layer_{k}",
                )
                for k in range(1, config.recurrence_layers + 1)
            ],
            name="recurrence",
        )

    def make_fusion(self, layer: int, norm: dict[str, Any], initializer: Any) -> Fusion | None:
        """See the base class."""
        config = self.config
        elsewhere = config.fusion_layers == "top" and layer < config.decoder_layers
        if elsewhere or config.fusion == "columns":
            return None
        dims = config.model_dim, config.recurrence_dim, config.num_heads
        options = {"norm": norm, "initializer": initializer, "from_zero": config.fusion_from_zero}
        return FUSIONS[config.fusion](*dims, **options, name="fusion")

    @property
    def annotations_dim(self) -> int:
        """See the base class."""
        beside = self.config.recurrence_dim if self.config.fusion == "columns" else 0
        return super().annotations_dim + beside

    def build(self, *_: Any) -> None:
        """Makes all weights."""
        super().build()
        self.recurrence.build((None, None, self.config.model_dim))

    def recur(self, source_ids: Any, training: bool = False, seeds: Any = None) -> tuple[Any, Any]:
        """Returns the recurrence encoder's states, `[B, R, O]`, and which count, `[B, R]`."""
        options = {"training": training, "seeds": seeds}
        embedded = self.source_embedding(source_ids, None, **options)
        return self.recurrence(embedded, ops.not_equal(source_ids, PAD_ID), **options)

    def encodings(self, source_ids: Any) -> list[tuple[Any, Any]]:
        """See the base class."""
        return [*super().encodings(source_ids), self.recur(source_ids)]

    def source_memory(
        self, source_ids: Any, training: bool = False, seeds: Any = None
    ) -> list[Any]:
        """See the base class; the recurrence encoder reads embeddings without signal."""
        annotations, bias = self.annotate(source_ids, training, seeds)
        recurrent = self.recur(source_ids, training, seeds)
        if self.config.fusion == "columns":
            annotations = ops.concatenate([annotations, recurrent[0]], axis=-1)
        return self.decoder.precompute(annotations, bias, recurrent)

    def inspect(self, source_ids: Any, target_ids: Any) -> tuple[dict[str, Any], Any]:
        """See the base class; the gates are those of the recurrence encoder and of gated sums."""
        with watching() as seen:
            gates, weights = super().inspect(source_ids, target_ids)
        names = {
            chain: f"recurrence/{layer.name}/{chain.name}/"
            for layer in self.recurrence.layers
            for chain in layer.recurrence.chains
        }
        words = None if self.config.recurrence_steps else ops.not_equal(source_ids, PAD_ID)
        fused = {layer.fusion: f"decoder/{layer.name}/fusion/" for layer in self.decoder.layers}
        for each in seen:
            if each.layer in names:
                gates |= mean_gates(each, words, names[each.layer])
            else:
                gates |= mean_gates(each, ops.not_equal(target_ids, PAD_ID), fused[each.layer])
        return gates, weights

    def multiplications(self) -> Multiplications:
        """See the base class."""
        layers = self.recurrence.layers
        fusions = [layer.fusion for layer in self.decoder.layers if layer.fusion is not None]
        return Multiplications.total(
            [
                super().multiplications(),
                *(self.of_recurrence(layer, k == 0) for k, layer in enumerate(layers)),
                *map(self.of_fusion, fusions),
            ]
        )

    def of_recurrence(self, layer: RecurrenceLayer, is_first: bool) -> Multiplications:
        """Returns the arithmetic of a layer of the recurrence encoder."""
        steps, after = self.config.num_states, elements([layer.inner, layer.outer])
        cells = [chain.transition for chain in layer.recurrence.chains]
        if self.config.recurrence == "birnn":
            return Multiplications(source=elements(cells) + after)
        attention = cells[0].attention  # the chains share it
        keys = math.prod(attention.key_kernel.shape)
        queries = len(cells) * math.prod(attention.query_kernel.shape)
        rows = elements([cell.cell for cell in cells]) + queries + after
        pair = 2 * len(cells) * attention.units  # a score from the keys, a share of what is read
        if not steps:
            return Multiplications(source=keys + rows, source_pair=pair)
        if is_first:
            return Multiplications(sentence=steps * rows, source=keys + steps * pair)
        return Multiplications(sentence=steps * (keys + rows) + steps**2 * pair)

    def of_fusion(self, fusion: Fusion) -> Multiplications:
        """Returns the arithmetic of what reads the recurrence encoder."""
        keys = elements([fusion.attention.key_value])
        target, pair = elements([fusion]) - keys, 2 * fusion.attention.units
        if steps := self.config.num_states:
            return Multiplications(sentence=steps * keys, target=target + steps * pair)
        return Multiplications(source=keys, target=target, pair=pair)

    def largest_tensors(self, sentences: int, length: int) -> dict[str, int]:
        """See the base class."""
        config, largest = self.config, super().largest_tensors(sentences, length)
        if config.recurrence != "birnn":
            steps = config.recurrence_steps or length
            chains, above = DIRECTIONS[config.recurrence], config.recurrence_layers - 1
            read = length * config.model_dim + above * steps * config.recurrence_dim
            largest["recurrence, all steps"] = sentences * chains * steps * read
        fusions = sum(layer.fusion is not None for layer in self.decoder.layers)
        pairs = sentences * length * (config.num_states or length)
        largest["attention weights"] += fusions * config.num_heads * pairs
        return largest

    def depths(self) -> dict[str, list[Any]]:
        """See the base class."""
        recurrent = {
            f"recurrence/{layer.name}": layer.trainable_variables
            for layer in self.recurrence.layers
        }
        return {**super().depths(), **recurrent}

    def modules(self) -> dict[str, list[Any]]:
        """See the base class; the fusions come before the decoder that has them inside."""
        fusions = [layer.fusion for layer in self.decoder.layers if layer.fusion is not None]
        new = {"recurrence encoder": [self.recurrence], "fusion": fusions}
        return {**new, **super().modules()}


def _presets() -> dict[str, ModelConfig]:
    """The systems of Hao et al.'s Tables 1 to 4, and a small one."""
    settings: dict[str, dict[str, Any]] = {
        "tiny_biarn": {},
        "base_biarn": {},
        "base_biarn3": {"recurrence_layers": 3},
        "base_biarn6": {"recurrence_layers": 6},
        "base_birnn6": {"recurrence": "birnn", "recurrence_layers": 6},
        "base_biarn_all": {"fusion_layers": "all"},
        "base_biarn_gated": {"fusion": "gated_sum"},
        "base_biarn_gated_all": {"fusion": "gated_sum", "fusion_layers": "all"},
        "base_rnn_columns": {
            "recurrence": "birnn",
            "recurrence_layers": 6,
            "fusion": "columns",
        },
        "big_biarn": {},
    }

    def added(name: str) -> ModelConfig:
        size = dataclasses.asdict(TRANSFORMERS[f"transformer_{name.partition('_')[0]}"])
        return RecurrenceTransformerConfig(**size, **settings[name])

    return {f"transformer_{name}": added(name) for name in settings}


PRESETS = _presets()
