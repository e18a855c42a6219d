"""What an exported model is: as JSON for its `info` signature, as Markdown for its folder."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Any

from dtmt_tf.config import DecodingConfig, ExportConfig
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.settings import about, as_override, is_built_in, other_side

SERVER_IMAGE = "tensorflow/serving:2.20.0"
# Products of this size gain nothing by threads: one line alone takes 1.4 to 1.8 times as long.
SERVER_OPTIONS = "--tensorflow_intra_op_parallelism=1"
SERVED_AS = "dtmt"
_FASTER = ("shortlist", "prune")  # told if set
_UNKNOWN = ("replace_unknown", "dictionary")  # told if the first is set
_SEARCH = [  # what else a translation depends on
    field.name
    for field in dataclasses.fields(DecodingConfig)
    if field.name not in ("batch_size", *_FASTER, *_UNKNOWN)
]


def model_card(
    experiment: Mapping[str, Any],
    scores: Mapping[str, Any],
    *,
    name: str,
    description: str,
    parameters: int,
    checkpoints: Sequence[int],
    limits: Mapping[str, Any],
    made_of: Mapping[str, str],
) -> dict[str, Any]:
    """Returns what there is to know of an exported model, as plain values that JSON has.

    Of files outside the data directory only the names are given: whoever may send requests to a
    server may ask for this card.

    Args:
        experiment: What `experiment.json` holds: settings, their origins, versions; of an ensemble,
            which are its first member's, the members' names, too.
        scores: What `scores.json` holds, by split; empty if nothing has been scored.
        name: The run's name.
        description: The task's.
        parameters: Number of trained weights.
        checkpoints: The updates whose weights were averaged; of an ensemble, each member's.
        limits: What the exported model does not do, by name, such as `longest_part`.
        made_of: Hashes of weights and dictionary, by the names that scores have them by.

    Returns:
        The card. `scores` gives for each split whether they are `of_this_model`: of the same
        weights, searched in the same way.
    """
    settings = experiment["settings"]
    origins = {key: text for key, text in experiment["origins"].items() if key != "model_name"}
    data = settings["data"]
    values = {
        key: without_folders(settings[section][setting])
        for key in origins
        for section, _, setting in [key.partition(".")]
    }
    own = ("default", f"task {settings['task']}")
    began = (experiment.get("init_from") or {}).get("run", "")
    members = list(experiment.get("members", ()))
    return {
        "task": settings["task"],
        "name": name,
        "description": description,
        "source_language": data["source_language"],
        "target_language": data["target_language"],
        "reverse": data["reverse"],
        "model": settings["model_name"],
        "members": members,
        "init_from": began,
        "parameters": parameters,
        "decoding": _search(settings["decoding"]),
        "limits": dict(limits),
        "scores": {
            split: _score(score, settings["decoding"], list(checkpoints), made_of)
            for split, score in scores.items()
        },
        "seed": settings["training"]["seed"],
        "checkpoints": list(checkpoints),
        "training_data": list(values["data.train_source"]) + list(values["data.train_target"])
        or [data.get("tfds_name") or data["corpus"]],
        "settings": {
            key: {"value": values[key], "origin": origin}
            for key, origin in origins.items()
            if origin not in own
        },
        "command": _united(settings, name, members)
        if members
        else _command(settings, name, began, values, origins),
        "versions": dict(experiment["versions"]),
    }


def _search(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a search; one that an earlier version did not have is its default."""
    defaults = dataclasses.asdict(DecodingConfig())
    found = {key: decoding.get(key, defaults[key]) for key in _SEARCH}
    found |= {key: decoding[key] for key in _FASTER if decoding.get(key)}
    if decoding.get("replace_unknown"):
        found |= {key: without_folders(decoding[key]) for key in _UNKNOWN if decoding[key]}
    return found


def without_folders(value: Any) -> Any:
    """Returns what JSON holds with absolute paths, keys too, cut to their names."""
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if isinstance(value, dict):
        return {without_folders(key): without_folders(item) for key, item in value.items()}
    is_absolute = isinstance(value, str) and PurePath(value).is_absolute()
    return PurePath(value).name if is_absolute else value


def is_of(score: Mapping[str, Any], decoding: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Whether a split's scores are of a model, as far as they say; earlier versions said less.

    Args:
        score: What `scores.json` holds of the split.
        decoding: The model's settings of the search.
        model: Hashes of weights and dictionary, and steps, by the names that scores have them by.
    """
    known = all(score.get(name, value) == value for name, value in model.items())
    return known and _search(score.get("decoding", decoding)) == _search(decoding)


def _score(
    score: Mapping[str, Any],
    decoding: Mapping[str, Any],
    checkpoints: list[int],
    made_of: Mapping[str, str],
) -> dict[str, Any]:
    """Returns one split's scores, and whether they are the exported model's."""
    return {
        "bleu": round(score["bleu"], 2),
        "signature": score["bleu_signature"],
        "chrf": round(score["chrf"], 2),
        "chrf_signature": score["chrf_signature"],
        "exact_match": score["exact_match"],
        "sentences": score["num_sentences"],
        "seed": score["training"]["seed"],
        "updates": score["training"]["updates"],
        "target_words": score["training"]["target_words"],
        "decoding": _search(score["decoding"]),
        "checkpoints": score["checkpoint_steps"],
        "of_this_model": is_of(score, decoding, {**made_of, "checkpoint_steps": checkpoints}),
    }


def _united(settings: Mapping[str, Any], name: str, members: Sequence[str]) -> str:
    """Returns the command that makes this ensemble again."""
    command = ["dtmt", "ensemble", "--task", settings["task"], "--name", name]
    return shlex.join([*command, *members])


def _command(
    settings: Mapping[str, Any],
    name: str,
    began: str,
    values: Mapping[str, Any],
    origins: Mapping[str, str],
) -> str:
    """Returns the command that trains this model again, from the weights that it began with."""
    command = ["dtmt", "train", "--task", settings["task"]]
    command += ["--model", settings["model_name"], "--name", name]
    if began:
        task, _, run = began.rpartition("/")
        beside = task == settings["task"]  # then its name will do
        command += ["--init-from", run if beside else f"saved_models/{began}"]
    data = settings["data"]
    given = [
        f"{_as_given(key, data) if data['reverse'] else key}={as_override(values[key])}"
        for key, origin in origins.items()
        if not is_built_in(origin)
    ]
    return shlex.join(command + (["--set", *given] if given else []))


def _as_given(key: str, data: Mapping[str, Any]) -> str:
    """Returns a setting's name before `data.reverse` exchanged source and target."""
    section, _, setting = key.partition(".")
    return key if section != "data" else f"data.{other_side(setting, data['joint_vocabulary'])}"


def card_text(card: Mapping[str, Any]) -> str:
    """Returns a model card as Markdown: `model_card.md` beside this file, filled in.

    Args:
        card: What `model_card` returned.
    """
    languages = card["source_language"], card["target_language"]
    model, members = f"`{card['model']}`", card["members"]
    if members:
        model = f"{len(members)} models that predict together, {model} first,"
    return _template().substitute(
        name=card["name"],
        task=card["task"],
        model=model,
        parameters=f"{card['parameters']:,}",
        direction=" from `{}` to `{}`".format(*languages) if all(languages) else "",
        description=card["description"],
        training_data=_names(card["training_data"]),
        reversed=" Source and target of the task are exchanged." if card["reverse"] else "",
        began=f" Training began with the weights of `{began}`, which has read its own text."
        if (began := card["init_from"])
        else "",
        scores="\n".join(_scores(card["scores"])),
        limits="\n".join(f"- {_limit(*limit)}" for limit in card["limits"].items()),
        search=_described(card["decoding"]),
        served_as=SERVED_AS,
        image=f"{SERVER_IMAGE} {SERVER_OPTIONS}",
        signatures=_table(
            ("signature", "inputs", "outputs", "what it answers"),
            (
                (f"`{key}`", _names(one.inputs), _names(one.outputs), one.purpose)
                for key, one in SIGNATURES.items()
            ),
        ),
        command=card["command"],
        training="\n".join(_training(card)),
        versions=", ".join(f"{package} {version}" for package, version in card["versions"].items()),
    )


def _limit(name: str, value: Any) -> str:
    """Returns a limit in words."""
    for item in dataclasses.fields(ExportConfig):
        if item.name == name:
            return f"at most {value:,} {about(item).meaning}; other requests are refused"
    return f"{name.replace('_', ' ')}: {value}"


def _template() -> Template:
    file = resources.files(__package__) / "model_card.md"
    return Template(file.read_text("utf-8"))


def _scores(scores: Mapping[str, Any]) -> list[str]:
    """Returns the section on scores as lines."""
    if not scores:
        return [
            "None: the model was exported before it was scored. Run `dtmt evaluate`, then",
            "`dtmt export`.",
        ]
    rows = [
        (
            split,
            f"{score['bleu']:.2f}",
            f"{score['chrf']:.2f}",
            "" if score["exact_match"] is None else f"{score['exact_match']:.2f} %",
            f"{score['sentences']:,}",
        )
        for split, score in scores.items()
    ]
    signatures = dict.fromkeys(
        f"- {metric}: `{score[key]}`"
        for metric, key in (("BLEU", "signature"), ("chrF2", "chrf_signature"))
        for score in scores.values()
    )
    others = [
        f"- {split}: scored with other weights or settings than this export: "
        f"{_described(score['decoding'])}; mean of updates {_numbers(score['checkpoints'])}"
        for split, score in scores.items()
        if not score["of_this_model"]
    ]
    table = _table(("split", "BLEU", "chrF2", "exact match", "sentences"), rows)
    return [table, "", *signatures, *others]


def _training(card: Mapping[str, Any]) -> list[str]:
    """Returns the facts about the training as lines."""
    lines = []
    if card["members"]:
        lines.append(f"- members: {_names(card['members'])}")
    else:
        lines.append(f"- seed {card['seed']}")
        lines.append(f"- weights: the mean of updates {_numbers(card['checkpoints'])}")
    if card["scores"]:
        newest = max(card["scores"].values(), key=lambda score: score["updates"])
        lines.append(f"- {newest['updates']:,} updates, {newest['target_words']:,} target tokens")
    if card["settings"]:
        rows = [
            (f"`{key}`", f"`{as_override(one['value'])}`", one["origin"])
            for key, one in card["settings"].items()
        ]
        table = _table(("setting", "value", "from"), rows)
        lines += ["", "Settings from the preset, options and files:", "", table]
    return lines


def _described(search: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in search.items())


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
