"""Public parallel corpora from the TFDS catalogue: found, or downloaded and prepared by TFDS."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.checksums import UrlInfo, get_all_url_infos
from tensorflow_datasets.core.download.resource import get_dl_fname
from tensorflow_datasets.translate.wmt import DATASET_MAP, WmtTranslate

from dtmt_tf.data.check import TRAIN, check_pairs
from dtmt_tf.data.parallel_text import Facts, PreparedText, fingerprint, preparing
from dtmt_tf.data.request import Request
from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import write_atomically
from dtmt_tf.folders import locked
from dtmt_tf.terminal import counted

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10  # for a host to answer at all


def load(request: Request) -> PreparedText:
    """Returns the data set of the catalogue that the settings name."""
    name = request.data.tfds_name
    return catalogued_text(name, request.languages, request.data_dir, request.datasets)


def catalogued_text(
    name: str, languages: tuple[str, str], data_dir: Path | None, folder: Path
) -> PreparedText:
    """Returns a data set of the catalogue, downloaded and prepared on first use.

    Args:
        name: Such as `"wmt14_translate/de-en"`.
        languages: Source and target.
        data_dir: Where a prepared copy is looked for first.
        folder: Where TFDS keeps data sets. Archives that were downloaded by hand are taken from
            `downloads/manual` below it.

    Raises:
        UserError: If there is no such data set, or it lacks the languages or is in another format
            than tfrecord, or it can not be downloaded. Then the message says which archives to
            put where.

    Side effects:
        Writes below `folder` alone: the data set, and in `records` what is found out about it.
    """
    builder = next(
        (
            builder
            for place in (data_dir, folder)
            if place and (builder := _builder(name, place)).is_prepared()
        ),
        None,
    )
    if builder is None:
        builder = _builder(name, folder)
        with preparing(builder.data_path):
            if not builder.is_prepared():
                _prepare(builder, folder / "downloads")
        builder = _builder(name, folder)
    features = builder.info.features
    if not isinstance(features, tfds.features.Translation) or not set(languages) <= set(features):
        raise UserError(
            f"data.tfds_name={name} has {', '.join(features)}, not data.source_language and "
            f"data.target_language: {' and '.join(languages)}."
        )
    if str(builder.info.file_format.value) != "tfrecord":
        raise UserError(
            f"{builder.data_dir} is in the format {builder.info.file_format.value}. Only tfrecord, "
            "TFDS's own, can be read; move the folder away, or prepare it again in that format."
        )
    names = {split: split for split in builder.info.splits}
    facts = _facts(PreparedText(builder, languages, names), folder / "records")
    return PreparedText(builder, languages, names, facts)


def archives(builder: tfds.core.DatasetBuilder) -> dict[str, UrlInfo]:
    """Returns TFDS's facts about each archive of a data set, by URL."""
    known = builder.url_infos
    if not isinstance(builder, WmtTranslate):
        return known
    foreign, _ = builder.builder_config.language_pair
    names = itertools.chain.from_iterable(builder.subsets.values())
    urls = {url: None for name in names for url in DATASET_MAP[name].get_url(foreign)}
    return {url: known.get(url) or get_all_url_infos()[url] for url in urls}


def _builder(name: str, folder: Path) -> tfds.core.DatasetBuilder:
    """Returns TFDS's builder of a data set below a folder."""
    try:
        return tfds.builder(name, data_dir=folder)
    except ValueError as error:  # a long one, that lists the whole catalogue
        raise UserError(
            f"data.tfds_name={name}: TFDS can not make this: {str(error).splitlines()[0]}\n"
            "https://www.tensorflow.org/datasets/catalog lists what it has, under translate."
        ) from error


def _prepare(builder: tfds.core.DatasetBuilder, downloads: Path) -> None:
    """Downloads and prepares a data set; fails at once where TFDS would try for minutes."""
    manual = downloads / "manual"
    manual.mkdir(parents=True, exist_ok=True)
    for url, archive in archives(builder).items():  # TFDS takes what is in `manual` by its name
        archive.filename = archive.filename or Path(urllib.parse.urlparse(url).path).name
    try:
        for url in _missing(builder, downloads):
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS):
                logger.info("Found %s", url)
        config = tfds.download.DownloadConfig(manual_dir=manual, try_download_gcs=False)
        with contextlib.redirect_stdout(sys.stderr):
            builder.download_and_prepare(download_dir=downloads, download_config=config)
    except Exception as error:  # whatever TFDS raises
        lines = [f"{builder.info.full_name} could not be made: {error}"]
        if missing := _missing(builder, downloads):
            lines.append(f"Fetch these on a machine that can, and put them in {manual}:")
            for url, archive in missing.items():
                lines.append(f"  {archive.filename} ({archive.size}) from {url}")
            lines.append(f"Or put the data set itself, prepared by TFDS, at {builder.data_dir}.")
        raise UserError("\n".join(lines)) from error


def _missing(builder: tfds.core.DatasetBuilder, downloads: Path) -> dict[str, UrlInfo]:
    """Returns the archives that were neither put in `manual` nor downloaded before."""
    return {
        url: archive
        for url, archive in archives(builder).items()
        if not (downloads / "manual" / str(archive.filename)).is_file()
        and not any(downloads.rglob(get_dl_fname(url, archive.checksum)))
    }


def _facts(text: PreparedText, folder: Path) -> Facts:
    """Returns the facts about a data set, after reading all of it once."""
    about = (Path(text.builder.data_dir) / "dataset_info.json").read_bytes()
    name = "-".join((text.builder.name, *text.languages, hashlib.sha256(about).hexdigest()[:16]))
    path = folder / f"{name}.json"
    with locked(path.with_suffix(".lock")):
        try:
            return Facts.from_dict(json.loads(path.read_text("utf-8")))
        except (FileNotFoundError, *DAMAGED):
            pass
        logger.info("Checking %s", text.builder.info.full_name)
        # nobody can mend a public corpus, so nothing found in it is fatal
        findings = check_pairs(
            {split: _sides(text, split) for split in text.sizes}, stop_if_fatal=False
        )
        facts = Facts(tuple(findings), _fingerprint(text) if TRAIN in text.sizes else "")
        write_atomically(path, json.dumps(facts.to_dict(), indent=1).encode())
        return facts


def _fingerprint(text: PreparedText) -> str:
    source, target = _sides(text, TRAIN)
    return fingerprint((line.encode() for line in source), (line.encode() for line in target))


def _sides(text: PreparedText, split: str) -> tuple[Iterator[str], Iterator[str]]:
    """Returns source and target of a split, each read for itself."""
    pairs = counted(text.stream(split), text.sizes[split], f"reading {split}")
    return (source for source, _ in pairs), (target for _, target in text.stream(split))
