"""Writes dates, numbers, amounts, measures and names in one language from Unicode CLDR data."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from babel import Locale, UnknownLocaleError, dates, lists, numbers, units

from dtmt_tf.errors import UserError

UnitLength = Literal["long", "short"]
AmountForm = Literal["standard", "name"]
ListStyle = Literal["standard", "or"]

_DATE_STYLES: frozenset[str] = frozenset(("full", "long", "medium", "short"))
# Longer than any threshold `format_timedelta` could meet, so that it keeps the unit it is given.
_KEEP_UNIT = 1e12


class Renderer:
    """Renders language-free values (dates, decimals, CLDR codes) in one language.

    A thin layer over Babel: it fixes the choices which a locale leaves open, so that one value has
    one rendering. The spaces that CLDR puts around units and dashes (U+00A0, U+202F, U+2009) are
    left as they are; `render_corpus` replaces them.

    Args:
        language: A locale known to CLDR, for example `"en"`, `"de"` or `"de-AT"`.

    Raises:
        UserError: If CLDR, as packed in Babel, does not know the language.
    """

    def __init__(self, language: str):
        try:
            self.locale = Locale.parse(language.replace("-", "_"))
        except (UnknownLocaleError, ValueError) as error:
            raise UserError(
                f"The CLDR corpus cannot be rendered in {language!r}: {error}. "
                "Choose a locale that Babel knows, such as 'en' or 'de'."
            ) from error
        # A locale whose short time shows AM and PM counts hours to twelve in every pattern.
        twelve_hours = "a" in dates.get_time_format("short", self.locale).pattern
        self._hour = "h" if twelve_hours else "H"

    def territory(self, code: str) -> str:
        """The name of a territory, by its ISO 3166 code."""
        return self._name("territory", self.locale.territories, code)

    def language(self, code: str) -> str:
        """The name of a language, by its ISO 639 code."""
        return self._name("language", self.locale.languages, code)

    def _name(self, kind: str, names: Any, code: str) -> str:
        try:
            return names[code]
        except KeyError:
            raise UserError(f"CLDR has no {kind} name for {code!r} in {self.locale}.") from None

    def date(self, value: datetime.date, form: str) -> str:
        """A date in one of CLDR's four styles, or by a skeleton such as `"yMMMM"`."""
        if form in _DATE_STYLES:
            return dates.format_date(value, form, locale=self.locale)
        return dates.format_skeleton(form, value, locale=self.locale)

    def time(self, value: datetime.time, style: str) -> str:
        """A time of day: hours and minutes (`"short"`) or with seconds (`"medium"`)."""
        return dates.format_time(value, style, locale=self.locale)

    def weekday_and_time(self, value: datetime.datetime) -> str:
        """A short weekday with hours and minutes."""
        return dates.format_skeleton(f"E{self._hour}m", value, locale=self.locale)

    def date_and_time(self, value: datetime.datetime, style: str) -> str:
        """A date in `style` followed by hours and minutes, joined by the locale's pattern."""
        # A pattern is a template whose {1} is the date and {0} the time. What is quoted is text.
        pattern = self.locale.datetime_formats[style].replace("'", "")
        return pattern.format(self.time(value.time(), "short"), self.date(value.date(), style))

    def date_interval(self, start: datetime.date, end: datetime.date, skeleton: str) -> str:
        """An interval of days or months; parts that both ends share are written once."""
        return dates.format_interval(start, end, skeleton, locale=self.locale)

    def time_interval(self, start: datetime.time, end: datetime.time) -> str:
        """An interval within one day, in hours and minutes."""
        return dates.format_interval(start, end, f"{self._hour}m", locale=self.locale)

    def relative(self, count: int, unit: str) -> str:
        """A span before (negative) or after now, such as "in 3 weeks".

        Args:
            count: How many; not zero.
            unit: `"year"`, `"month"`, `"week"`, `"day"`, `"hour"`, `"minute"` or `"second"`.
        """
        seconds = dict(dates.TIMEDELTA_UNITS)[unit]
        return dates.format_timedelta(
            datetime.timedelta(seconds=count * seconds),
            granularity=unit,  # type: ignore[arg-type]
            threshold=_KEEP_UNIT,
            add_direction=True,
            locale=self.locale,
        )

    def number(self, value: Decimal) -> str:
        """A decimal with grouping, at most three decimal places."""
        return numbers.format_decimal(value, locale=self.locale)

    def percent(self, value: Decimal) -> str:
        """A fraction as a percentage, with all its places."""
        return numbers.format_percent(value, locale=self.locale, decimal_quantization=False)

    def scientific(self, value: Decimal) -> str:
        """A mantissa and an exponent."""
        return numbers.format_scientific(value, locale=self.locale, decimal_quantization=False)

    def compact(self, value: Decimal, length: UnitLength) -> str:
        """A number of a million or more in words, rounded to one decimal place."""
        if length not in self.locale.compact_decimal_formats:  # Chinese has one
            length = "short"
        return numbers.format_compact_decimal(
            value, format_type=length, locale=self.locale, fraction_digits=1
        )

    def amount(self, value: Decimal, currency: str, form: AmountForm) -> str:
        """An amount of money with the currency's symbol, or with its name in the plural."""
        return numbers.format_currency(value, currency, locale=self.locale, format_type=form)

    def compact_amount(self, value: Decimal, currency: str) -> str:
        """A million or more in a currency, rounded to one decimal place."""
        return numbers.format_compact_currency(
            value, currency, locale=self.locale, fraction_digits=1
        )

    def measure(self, value: Decimal | int, unit: str, length: UnitLength) -> str:
        """A number with a unit; the unit by CLDR's name, such as `"length-meter"`."""
        return units.format_unit(value, unit, length, locale=self.locale)

    def list(self, items: Sequence[str], style: ListStyle) -> str:
        """Items joined by commas and a final "and" or "or"."""
        return lists.format_list(items, style, locale=self.locale)
