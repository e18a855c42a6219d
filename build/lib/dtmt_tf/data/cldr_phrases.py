"""The phrases of the CLDR corpus: what is drawn at random, and what each language is asked for.

Each function draws language-free values once and returns a rendering, which a `Renderer` of any
language turns into text. Phrases are joined by neutral punctuation or by CLDR's list patterns
alone; no word is written here.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal

from dtmt_tf.data.cldr_renderer import AmountForm, ListStyle, Renderer, UnitLength
from dtmt_tf.data.cldr_sampler import DURATIONS, Sampler

Rendering = Callable[[Renderer], str]
Phrase = Callable[[Sampler], Rendering]

# CLDR's skeleton yMMMd is left out, as "Mar 5, 2024" would then stand for two German forms
# ("5. März 2024" beside the style medium, "05.03.2024"). So are weeks of the year and of the month,
# which English and German count differently.
_DATE_FORMS = ("full", "long", "medium", "short", "yMMMEd", "yMd", "yMEd", "MMMMd", "MMMEd")
_SHORT_DATE_FORMS = ("long", "medium", "short", "yMd", "MMMMd", "yMMMM")
_DATE_TIME_STYLES = ("full", "long", "medium", "short")
_LIST_STYLES: tuple[ListStyle, ...] = ("standard", "or")
_AMOUNT_FORMS: tuple[AmountForm, ...] = ("standard", "standard", "name")
_UNIT_LENGTHS: tuple[UnitLength, ...] = ("long", "long", "short")


def _date_form(draw: Sampler, day: datetime.date, forms: tuple[str, ...]) -> str:
    """Draws a form of the date, but none that either language would confuse with another one."""
    form = draw.rng.choice(forms)
    if form == "medium" and day.month == 5:
        return "long"  # "May 5, 2024" is English in both forms, "05.05.2024" and "5. Mai 2024" not.
    if form == "yMd" and day.day > 9 and day.month > 9:
        return "long"  # "15.10.2024" is German in both forms, "10/15/2024" and "Oct 15, 2024" not.
    return form


def _join(template: str, *parts: Rendering) -> Rendering:
    return lambda renderer: template.format(*(part(renderer) for part in parts))


def _list(draw: Sampler, parts: list[Rendering]) -> Rendering:
    style = draw.rng.choice(_LIST_STYLES)
    return lambda renderer: renderer.list([part(renderer) for part in parts], style)


def _measure(value: Decimal | int, unit: str, length: UnitLength) -> Rendering:
    return lambda renderer: renderer.measure(value, unit, length)


def territory(draw: Sampler) -> Rendering:
    """Germany."""
    code = draw.territory()
    return lambda renderer: renderer.territory(code)


def language(draw: Sampler) -> Rendering:
    """French."""
    code = draw.language()
    return lambda renderer: renderer.language(code)


def date(draw: Sampler) -> Rendering:
    """Tuesday, March 5, 2024."""
    day = draw.date()
    form = _date_form(draw, day, _DATE_FORMS)
    return lambda renderer: renderer.date(day, form)


def short_date(draw: Sampler) -> Rendering:
    """March 5."""
    day = draw.date()
    form = _date_form(draw, day, _SHORT_DATE_FORMS)
    return lambda renderer: renderer.date(day, form)


def period(draw: Sampler) -> Rendering:
    """1st quarter 2024."""
    day, form = draw.date(), draw.rng.choice(("yQQQQ", "yMMMM", "GyMMM", "GyMMMd"))
    return lambda renderer: renderer.date(day, form)


def time(draw: Sampler) -> Rendering:
    """3:07:09 PM."""
    moment, style = draw.time(), draw.rng.choice(("short", "medium"))
    return lambda renderer: renderer.time(moment, style)


def date_and_time(draw: Sampler) -> Rendering:
    """March 5, 2024, 3:07 PM."""
    moment = datetime.datetime.combine(draw.date(), draw.time())
    style = _date_form(draw, moment, _DATE_TIME_STYLES)
    return lambda renderer: renderer.date_and_time(moment, style)


def weekday_and_time(draw: Sampler) -> Rendering:
    """Tue 3:07 PM."""
    moment = datetime.datetime.combine(draw.date(), draw.time())
    return lambda renderer: renderer.weekday_and_time(moment)


def date_interval(draw: Sampler) -> Rendering:
    """Mar 5 - 10, 2024."""
    most_days_apart, skeleton = draw.rng.choice(
        ((20, "yMMMd"), (150, "yMMMd"), (900, "yMMMd"), (20, "yMMMEd"), (900, "yMMMM"))
    )
    start, end = draw.dates(most_days_apart)
    return lambda renderer: renderer.date_interval(start, end, skeleton)


def time_interval(draw: Sampler) -> Rendering:
    """9:15 AM - 3:07 PM."""
    start, end = draw.times()
    return lambda renderer: renderer.time_interval(start, end)


def relative(draw: Sampler) -> Rendering:
    """3 weeks ago."""
    count, unit = draw.count(99) * draw.rng.choice((-1, 1)), draw.rng.choice(DURATIONS)
    return lambda renderer: renderer.relative(count, unit)


def duration(draw: Sampler) -> Rendering:
    """3 hours."""
    return _measure(draw.count(60), f"duration-{draw.rng.choice(DURATIONS)}", "long")


def durations(draw: Sampler) -> Rendering:
    """3 hours and 5 minutes."""
    first = draw.rng.randrange(len(DURATIONS) - 1)
    names = DURATIONS[first : first + draw.rng.randint(2, 3)]
    parts = [_measure(draw.count(59), f"duration-{name}", "long") for name in names]
    return lambda renderer: renderer.list([part(renderer) for part in parts], "standard")


def number(draw: Sampler) -> Rendering:
    """1,234.5."""
    value = draw.decimal((4, 7), draw.rng.choice((0, 0, 1, 2, 3)), negative=True)
    return lambda renderer: renderer.number(value)


def percent(draw: Sampler) -> Rendering:
    """12.5%."""
    value = draw.decimal((2, 4), draw.rng.choice((2, 3, 4)), negative=True)
    return lambda renderer: renderer.percent(value)


def scientific(draw: Sampler) -> Rendering:
    """1.234E5."""
    value = draw.decimal((2, 5), 1).scaleb(draw.rng.randint(3, 12))
    return lambda renderer: renderer.scientific(value)


def compact(draw: Sampler) -> Rendering:
    """12.5 million."""
    length = draw.rng.choice(_UNIT_LENGTHS)
    value = draw.decimal((2, 4), 1).scaleb(draw.rng.choice((6, 9, 12)))
    return lambda renderer: renderer.compact(value, length)


def amount(draw: Sampler) -> Rendering:
    """$1,234.50."""
    currency, form = draw.currency(), draw.rng.choice(_AMOUNT_FORMS)
    value = draw.amount(currency)
    return lambda renderer: renderer.amount(value, currency, form)


def price(draw: Sampler) -> Rendering:
    """$1,234.50, never with the currency's name."""
    currency = draw.currency()
    value = draw.amount(currency)
    return lambda renderer: renderer.amount(value, currency, "standard")


def compact_amount(draw: Sampler) -> Rendering:
    """$12.5M."""
    currency, value = draw.currency(), draw.decimal((2, 4), 1).scaleb(draw.rng.choice((6, 9)))
    return lambda renderer: renderer.compact_amount(value, currency)


def measure(draw: Sampler) -> Rendering:
    """12.5 kilometers."""
    unit, length = draw.unit(), draw.rng.choice(_UNIT_LENGTHS)
    if draw.rng.randrange(3) == 0:
        return _measure(draw.count(200), unit, length)
    return _measure(draw.decimal((2, 5), draw.rng.choice((0, 1, 1, 2))), unit, length)


def territories(draw: Sampler) -> Rendering:
    """Spain, Finland, and Japan."""
    return _list(draw, [territory(draw) for _ in range(draw.rng.choice((2, 2, 3, 3, 4)))])


def languages(draw: Sampler) -> Rendering:
    """French or Danish."""
    return _list(draw, [language(draw) for _ in range(draw.rng.choice((2, 2, 3, 3, 4)))])


def list_of_values(draw: Sampler) -> Rendering:
    """March 5 and April 7."""
    part = draw.rng.choice((time, price, measure, percent, duration, month_day))
    return _list(draw, [part(draw) for _ in range(draw.rng.choice((2, 2, 3)))])


def month_day(draw: Sampler) -> Rendering:
    """March 5."""
    day = draw.date()
    return lambda renderer: renderer.date(day, "MMMMd")


def language_of_territory(draw: Sampler) -> Rendering:
    """French (Canada)."""
    return _join("{} ({})", language(draw), territory(draw))


def place_and_value(draw: Sampler) -> Rendering:
    """Canada: 12.5%."""
    single = draw.rng.choice((price, number, percent, measure, compact, compact_amount, time))
    part = draw.rng.choice((single, date_and_time, value_and_value))
    return _join("{}: {}", territory(draw), part(draw))


def language_and_value(draw: Sampler) -> Rendering:
    """French: 12.5%."""
    part = draw.rng.choice((percent, number, compact, duration))
    return _join("{}: {}", language(draw), part(draw))


def place_and_date(draw: Sampler) -> Rendering:
    """Canada, March 5, 2024."""
    return _join("{}, {}", territory(draw), draw.rng.choice((short_date, date))(draw))


def interval_and_place(draw: Sampler) -> Rendering:
    """Mar 5 - 10, 2024 (Canada)."""
    part = draw.rng.choice((date_interval, time_interval))
    return _join("{} ({})", part(draw), territory(draw))


def date_and_value(draw: Sampler) -> Rendering:
    """March 5, 2024: $12.50."""
    part = draw.rng.choice((price, measure, percent, number, territory, time_interval))
    return _join("{}: {}", short_date(draw), part(draw))


def value_and_value(draw: Sampler) -> Rendering:
    """12.5 kilometers (3 hours)."""
    first = draw.rng.choice((measure, price, duration))
    second = draw.rng.choice((percent, duration, relative, time))
    return _join("{} ({})", first(draw), second(draw))


def places_and_value(draw: Sampler) -> Rendering:
    """Spain, Finland, and Japan: $12.50."""
    part = draw.rng.choice((price, percent, measure, short_date, date_interval))
    return _join("{}: {}", territories(draw), part(draw))


# How often each phrase is tried, relative to the others. Kinds with few values soon run dry.
PHRASES: dict[Phrase, int] = {
    territory: 1,
    language: 1,
    date: 7,
    period: 3,
    time: 1,
    date_and_time: 6,
    weekday_and_time: 2,
    date_interval: 7,
    time_interval: 5,
    relative: 2,
    duration: 1,
    durations: 4,
    number: 3,
    percent: 2,
    scientific: 2,
    compact: 3,
    amount: 6,
    compact_amount: 2,
    measure: 6,
    territories: 6,
    languages: 5,
    list_of_values: 7,
    language_of_territory: 2,
    place_and_value: 18,
    language_and_value: 4,
    place_and_date: 6,
    interval_and_place: 4,
    date_and_value: 5,
    value_and_value: 5,
    places_and_value: 7,
}
