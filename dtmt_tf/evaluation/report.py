"""Scores for people: tables of at most 80 columns."""

from collections.abc import Sequence

from dtmt_tf.evaluation.scores import SAMPLES, SEED, MetricScore, Scores, SystemScore
from dtmt_tf.terminal import columns

NARROWEST = 12  # columns that a name has, also where the table is wider than the terminal


def format_scores(scores: Scores) -> str:
    """Returns scores as lines of text, signatures included.

    Args:
        scores: The scores of one system.

    Returns:
        A few lines without a final newline.
    """
    precisions = " / ".join(f"{precision:.1f}" for precision in scores.precisions)
    ratio = (
        f"{scores.hypothesis_length / scores.reference_length:.3f}"
        if scores.reference_length
        else "-"
    )
    intervals = {
        name: [f"  95 %       {low:.2f} to {high:.2f}"]
        for name, (low, high) in scores.intervals.items()
    }
    lines = [
        f"sentences    {scores.num_sentences}",
        f"BLEU         {scores.bleu:.2f}",
        *intervals.get("bleu", []),
        f"  precisions {precisions}",
        f"  brevity    {scores.brevity_penalty:.3f}",
        f"  lengths    {scores.hypothesis_length} tokens, "
        f"reference {scores.reference_length}, ratio {ratio}",
        *_signature_lines(scores.bleu_signature),
        f"chrF2        {scores.chrf:.2f}",
        *intervals.get("chrf", []),
        *_signature_lines(scores.chrf_signature),
    ]
    if scores.ter is not None and scores.ter_signature is not None:
        lines += [f"TER          {scores.ter:.2f} (lower is better)", *intervals.get("ter", [])]
        lines += _signature_lines(scores.ter_signature)
    if scores.comet is not None:
        lines += [f"COMET        {scores.comet:.2f}", *intervals.get("comet", [])]
        lines.append(f"  model      {scores.comet_model}")
    if scores.exact_match is not None:
        lines += [f"exact match  {scores.exact_match:.2f}%", *intervals.get("exact_match", [])]
    if intervals:
        lines.append(f"95 %: intervals by bootstrap, {SAMPLES:,} samples, seed {SEED}")
    return "\n".join(lines)


def format_comparison(systems: Sequence[SystemScore]) -> str:
    """Returns a comparison as a table for each metric, with the signature below it.

    Args:
        systems: What `compare_systems` returned, the baseline first.

    Returns:
        Tables without a final newline. Names too long for them begin with an ellipsis.
    """
    names = [system.name for system in systems]
    return "\n\n".join(
        _comparison(metric, names, [system.metrics[metric] for system in systems])
        for metric in systems[0].metrics
    )


def _comparison(metric: str, names: Sequence[str], scores: Sequence[MetricScore]) -> str:
    headings = (metric, "change", "mean and 95% interval", "p-value")
    widths = (8, 9, 24, 11)
    longest = max(map(len, ("system", *names)))
    name_width = min(longest, max(NARROWEST, columns() - sum(widths)))
    lines = ["system".ljust(name_width) + _row(headings, widths)]
    lines.append("-" * len(lines[0]))
    for name, found in zip(names, scores, strict=True):
        if len(name) > name_width:
            name = "..." + name[3 - name_width :]  # paths differ at their ends
        is_baseline = found.p_value is None
        cells = (
            f"{found.score:.2f}",
            "baseline" if is_baseline else f"{found.score - scores[0].score:+.2f}",
            f"{found.mean:.2f} ± {found.confidence_interval:.2f}",
            "" if found.p_value is None else f"{found.p_value:.4f}",
        )
        lines.append((name.ljust(name_width) + _row(cells, widths)).rstrip())
    lines.extend(_signature_lines(scores[0].signature))
    return "\n".join(lines)


def format_means(names: Sequence[str], means: Sequence[float], sets: int) -> str:
    """Returns the mean BLEU of each system over test sets, as lines of text.

    Args:
        names: The systems' names, the baseline first.
        means: The mean of each.
        sets: Number of test sets.
    """
    lines = [f"mean BLEU of {sets} test sets"]
    for name, mean in zip(names, means, strict=True):
        change = f" ({mean - means[0]:+.2f})" if len(means) > 1 and name != names[0] else ""
        lines.append(f"  {mean:.2f}{change}  {name}")
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Returns the cells right-aligned, each in its width."""
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _signature_lines(signature: str) -> list[str]:
    """Returns a signature on as few indented lines as fit, broken only between its fields."""
    first_indent, next_indent = "  signature  ", " " * 13
    lines = [first_indent]
    for field in signature.replace("|", "|\n").split("\n"):
        if len(lines[-1]) + len(field) > columns() and lines[-1].strip() != "signature":
            lines.append(next_indent)
        lines[-1] += field
    return lines
