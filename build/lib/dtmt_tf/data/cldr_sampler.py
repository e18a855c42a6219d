"""Draws the language-free values of the CLDR corpus: dates, times, numbers and codes of names."""

import datetime
import random
import zlib
from decimal import Decimal

from babel.numbers import get_currency_precision

TERRITORIES = """
    AD AE AF AL AM AO AR AT AU AZ BA BD BE BG BO BR BT BW BY CA CD CF CG CH CM CN CO CU CY CZ DE DJ
    DK DO DZ EC EE EG ES ET FI FJ FR GA GB GE GF GH GL GR HR HU ID IE IN IQ IR IS IT JM JO JP KE KG
    KH KM KP KR KZ LB LT LU LV LY MA MD MG MK MM MN MR MT MV MX MY MZ NC NL NO NP NZ PE PG PH PK PL
    PT QA RO RS RU RW SA SC SD SE SG SI SK SO SS SY TD TH TJ TN TR TT TZ UA US UZ VA VN YE ZA ZM ZW
""".split()
LANGUAGES = """
    af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl he hi hr hu hy id is it
    ja ka kk km ko la lb lt lv mk mn mt my ne nl no pl pt ro ru sk sl sq sr sv sw ta th tr uk uz vi
    yi zh zu
""".split()
CURRENCIES = "EUR USD GBP JPY CHF SEK NOK DKK PLN CZK CNY INR BRL CAD AUD".split()
UNITS = """
    length-kilometer length-meter length-centimeter length-millimeter length-mile length-foot
    length-inch area-square-kilometer area-square-meter area-hectare area-acre mass-kilogram
    mass-gram mass-tonne mass-pound mass-ounce volume-liter volume-milliliter volume-cubic-meter
    volume-gallon speed-kilometer-per-hour speed-meter-per-second speed-mile-per-hour speed-knot
    temperature-celsius temperature-fahrenheit digital-gigabyte digital-megabyte digital-terabyte
    power-kilowatt power-watt energy-kilowatt-hour energy-kilocalorie electric-volt electric-ampere
    frequency-megahertz pressure-hectopascal pressure-bar angle-degree graphics-pixel
""".split()
DURATIONS = ("year", "month", "week", "day", "hour", "minute", "second")

_FIRST_DAY = datetime.date(1950, 1, 1).toordinal()
_LAST_DAY = datetime.date(2049, 12, 31).toordinal()
# One date or number in this many belongs to the test set, and another one to the validation set.
_HELD_OUT_SHARE = 50


def split_of(value: datetime.date | Decimal) -> str:
    """The only split, `"train"`, `"validation"` or `"test"`, in which a value may occur."""
    key = value.normalize() if isinstance(value, Decimal) else value
    bucket = zlib.crc32(str(key).encode()) % _HELD_OUT_SHARE
    return {0: "test", 1: "validation"}.get(bucket, "train")


class Sampler:
    """Draws values for one split.

    Every date and every decimal belongs to one split (see `split_of`), whatever the seed, so those
    of the test set do not occur in training. Names, small counts and times of day are few and are
    shared by all splits.

    Args:
        rng: The source of randomness.
        split: `"train"`, `"validation"` or `"test"`.
    """

    def __init__(self, rng: random.Random, split: str):
        self.rng = rng
        self.split = split

    def territory(self) -> str:
        """An ISO 3166 code."""
        return self.rng.choice(TERRITORIES)

    def language(self) -> str:
        """An ISO 639 code."""
        return self.rng.choice(LANGUAGES)

    def currency(self) -> str:
        """An ISO 4217 code."""
        return self.rng.choice(CURRENCIES)

    def unit(self) -> str:
        """CLDR's name of a unit of measure."""
        return self.rng.choice(UNITS)

    def count(self, largest: int) -> int:
        """A small whole number from 1 on, shared by all splits."""
        return self.rng.randint(1, largest)

    def date(self) -> datetime.date:
        """A day of the years 1950 to 2049."""
        while True:
            day = datetime.date.fromordinal(self.rng.randint(_FIRST_DAY, _LAST_DAY))
            if split_of(day) == self.split:
                return day

    def dates(self, most_days_apart: int) -> tuple[datetime.date, datetime.date]:
        """Two days, the earlier one first."""
        while True:
            start = self.date()
            end = start + datetime.timedelta(days=self.rng.randint(1, most_days_apart))
            if split_of(end) == self.split:
                return start, end

    def time(self) -> datetime.time:
        """A time of day to the second."""
        minutes, second = divmod(self.rng.randrange(24 * 60 * 60), 60)
        return datetime.time(minutes // 60, minutes % 60, second)

    def times(self) -> tuple[datetime.time, datetime.time]:
        """Two times of day in whole minutes, the earlier one first."""
        start, end = sorted(self.rng.sample(range(24 * 60), 2))
        return datetime.time(start // 60, start % 60), datetime.time(end // 60, end % 60)

    def decimal(self, digits: tuple[int, int], places: int = 0, negative: bool = False) -> Decimal:
        """A number with a given number of decimal places, the last of them not zero.

        Args:
            digits: The fewest and the most significant digits, both drawn with equal chance.
            places: How many of the digits follow the decimal point.
            negative: Whether one number in eight is below zero.
        """
        while True:
            size = self.rng.randint(*digits)
            value = self.rng.randrange(10 ** (size - 1), 10**size)
            if places and value % 10 == 0:
                continue
            if negative and self.rng.randrange(8) == 0:
                value = -value
            decimal = Decimal(value).scaleb(-places)
            if split_of(decimal) == self.split:
                return decimal

    def amount(self, currency: str) -> Decimal:
        """An amount of money in the smallest coin of the currency."""
        places = get_currency_precision(currency)
        while True:
            size = self.rng.randint(2, 5)
            value = self.rng.randrange(10 ** (size - 1), 10**size)
            # Two prices in five are round.
            coins = self.rng.choice((0, 0, 50, 95, self.rng.randrange(100))) if places else 0
            decimal = Decimal(value * 100 + coins).scaleb(-2)
            if split_of(decimal) == self.split:
                return decimal
