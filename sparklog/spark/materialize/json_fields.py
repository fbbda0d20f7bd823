"""The fields of JSON texts as columns: each type takes only its own kind of JSON, and stores it exactly or not at all.

    text -> tag numbers and booleans (`_tagged`) -> from_json with strings only -> convert each string (`_converted`)
    text that is plain (`plain_json`) -> from_json with the types

Spark's own reader converts while it parses: it makes a string of a number, a time of any number, and rounds. So here it
only parses. Before that, each number and each boolean becomes a string that begins with `~n`, so that its digits
survive and it can't be confused with a string. A string that could be confused with something else gets `~s` in front.
All that takes six times as long as parsing, so a text whose tokens all fit their types is parsed as it is.
docs/maintenance.md has the table of what each type takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.core.errors import InvalidOption
from sparklog.spark.materialize.plain_json import NUMBER, WHOLE, plain_object

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_STRICT_JSON: Final = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "timeZone": "UTC",
}
_REST: Final = r'(?s:[^"\\]++|\\.)*+"'  # of a string, from any place in it
# Every number and boolean, found by walking over the whole text.
_ANY_TOKEN: Final = rf'\G((?:[^"\-0-9tf]++|"{_REST})*+)({NUMBER}|true|false)(?![-+.\w]|\s*+:)'
_CONFUSABLE: Final = ('"~', '"{', '"[', '"\\')  # as strings may begin
_CONFUSABLE_VALUE: Final = rf'(?<!\\)"(?=[~{{\[\\]{_REST}\s*+(?!:))'
_HALF_PAIR: Final = rf'\G((?:[^"]++|"{WHOLE}")*+)"({WHOLE}\\u{_REST})'
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6}0*+)?+)?+"
_ZONE: Final = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_FINE: Final = 10**12  # parts of a unit of the last digit
_ZERO: Final = r"^-?0(?:\.0*)?(?:[eE].*)?$"
_TYPES: Final = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal, string, binary, date, timestamp, timestamp_ntz, "
    "struct, array, map with string keys"
)


def check_types(option: str, schema: StructType) -> None:
    """Raise InvalidOption, which names `option`, for a field whose type can't be read from JSON."""
    for field in schema:
        refused = _refused_type(field.dataType)
        if refused is not None:
            raise InvalidOption(f"{option}: wanted a column of {_TYPES}, found {field.name} {refused.simpleString()}")


def json_fields(text: Column, schema: StructType) -> Column:
    """Parse a column of texts. Return a struct with the fields of `schema`.

    The struct is null where the text is null or bad: it is not one JSON object, or a token in it does not fit the type
    of its field. Text after the object is bad too, but Spark's reader ignores it. So the text is wrapped twice. In an
    object with a second field, it closes no bracket that it did not open if Spark finds that field. In an array, it is
    one value and no list of them if the array has one item.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    whole, end, bad = "whole~", "end~", "bad~"

    def read(json: Column, type_: DataType, convert: Callable[[Column], Column]) -> Column:
        """Parse texts as `type_`, and convert those that close no bracket but their own."""
        wrapped = StructType(
            [StructField(whole, type_), StructField(end, IntegerType()), StructField(bad, StringType())]
        )
        document = sql.concat(sql.lit(f'{{"{whole}":'), json, sql.lit(f',"{end}":1}}'))
        parsed = sql.from_json(document, wrapped, {**_STRICT_JSON, "columnNameOfCorruptRecord": bad})
        return _let(parsed, lambda made: sql.when(made[bad].isNull() & (made[end] == 1), convert(made[whole])))

    is_one = sql.json_array_length(sql.concat(sql.lit("["), text, sql.lit("]"))) == 1
    any_text = read(_tagged(text), _of_leaves(schema, lambda _: StringType()), lambda made: _converted(made, schema))
    result = sql.when(is_one, any_text)
    plain = plain_object(schema)
    if plain is not None:
        as_is = read(text, _of_leaves(schema, lambda type_: type_), lambda made: made)
        result = sql.when(text.rlike(plain), as_is).otherwise(result)  # the pattern is that of one value
    return sql.when(sql.is_valid_utf8(text), result)


def _tagged(text: Column) -> Column:
    """Return the JSON text with tags by which `_string_of` and `_token_of` tell strings from other tokens.

    A string with half a surrogate pair, which can't be stored, gets `~x`.
    """
    from pyspark.sql import functions as sql

    confusable = _any([text.contains(begin) for begin in _CONFUSABLE])
    text = sql.when(confusable, sql.regexp_replace(text, _CONFUSABLE_VALUE, '"~s')).otherwise(text)
    escaped = text.contains("\\ud") | text.contains("\\uD")
    text = sql.when(escaped, sql.regexp_replace(text, _HALF_PAIR, '$1"~x$2')).otherwise(text)
    return sql.regexp_replace(text, _ANY_TOKEN, '$1"~n$2"')


def _string_of(value: Column) -> Column:
    """The string that a tagged value is, or null if it's another token."""
    from pyspark.sql import functions as sql

    other = value.startswith("~") | value.startswith("{") | value.startswith("[")
    return sql.when(value.startswith("~s"), _behind_tag(value)).when(~other, value)


def _token_of(value: Column) -> Column:
    """The text of the number or boolean that a tagged value is, or null if it's another token."""
    from pyspark.sql import functions as sql

    return sql.when(value.startswith("~n"), _behind_tag(value))


def _behind_tag(value: Column) -> Column:
    return value.substr(3, 1 << 30)


def _of_leaves(type_: DataType, leaf: Callable[[DataType], DataType]) -> DataType:
    """Return the type with `leaf` applied to each innermost type, and without default values of fields."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if isinstance(type_, StructType):
        return StructType([StructField(field.name, _of_leaves(field.dataType, leaf)) for field in type_])
    if isinstance(type_, ArrayType):
        return ArrayType(_of_leaves(type_.elementType, leaf))
    if isinstance(type_, MapType):
        return MapType(StringType(), _of_leaves(type_.valueType, leaf))
    return leaf(type_)


def _refused_type(type_: DataType) -> DataType | None:
    """The first type inside `type_`, or `type_` itself, that can't be read from JSON; None if all can."""
    from pyspark.sql import types

    if isinstance(type_, types.StructType):
        return next(filter(None, (_refused_type(field.dataType) for field in type_)), None)
    if isinstance(type_, types.ArrayType):
        return _refused_type(type_.elementType)
    if isinstance(type_, types.MapType):
        return _refused_type(type_.valueType) if type(type_.keyType) is types.StringType else type_
    taken = (
        *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.FloatType, types.DoubleType, types.DecimalType, types.StringType, types.BinaryType),
        *(types.DateType, types.TimestampType, types.TimestampNTZType),
    )
    return None if type(type_) in taken else type_


def _let(value: Column, result: Callable[[Column], Column]) -> Column:
    """Return `result` of a value that is computed once, however often `result` uses it."""
    from pyspark.sql import functions as sql

    return sql.element_at(sql.transform(sql.array(value), result), 1)


def _converted(value: Column, type_: DataType) -> Column:
    """Convert tagged strings to a type. The result is null where the value is null or bad."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, StructType):
        return _converted_struct(value, type_)
    if isinstance(type_, ArrayType):
        return _converted_array(value, type_)
    if isinstance(type_, MapType):
        return _converted_map(value, type_)
    return _converted_scalar(value, type_)


def _converted_struct(value: Column, type_: StructType) -> Column:
    from pyspark.sql import functions as sql

    def checked(made: Column) -> Column:
        bad = [value[name].isNotNull() & made[name].isNull() for name in type_.names]
        return sql.when(value.isNotNull() & ~_any(bad), made)

    fields = [_converted(value[field.name], field.dataType).alias(field.name) for field in type_]
    return _let(sql.struct(*fields), checked)


def _any(conditions: list[Column]) -> Column:
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return result


def _converted_array(value: Column, type_: DataType) -> Column:
    from pyspark.sql import functions as sql

    def checked(made: Column) -> Column:
        return sql.when(_nulls(value) == _nulls(made), made)

    return _let(sql.transform(value, lambda item: _converted(item, type_.elementType)), checked)  # type: ignore[attr-defined]


def _converted_map(value: Column, type_: DataType) -> Column:
    """A map with a key twice, or with half a surrogate pair in a key, is bad."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType

    keys = sql.map_keys(value)
    bad_keys = (sql.size(sql.array_distinct(keys)) != sql.size(keys)) | sql.exists(
        keys, lambda key: key.startswith("~x")
    )
    values = _converted_array(sql.map_values(value), ArrayType(type_.valueType))  # type: ignore[attr-defined]
    return sql.when(~bad_keys, _let(values, lambda made: sql.when(made.isNotNull(), sql.map_from_arrays(keys, made))))


def _nulls(items: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.size(sql.filter(items, lambda item: item.isNull()))


def _converted_scalar(value: Column, type_: DataType) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql import types

    string, token = _string_of(value), _token_of(value)
    match type_:
        case types.StringType():
            return string
        case types.BooleanType():
            return sql.when(token == "true", sql.lit(True)).when(token == "false", sql.lit(False))
        case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
            return token.try_cast(type_)
        case types.DecimalType():
            return _let(token, lambda number: _decimal(number, type_))
        case types.DoubleType():
            return _let(token, lambda number: _floating(number, _Floating(type_, 15, 17, 1e-290, 1e290, 52)))
        case types.FloatType():
            return _let(token, lambda number: _floating(number, _Floating(type_, 6, 9, 1e-30, 1e30, 23)))
        case types.DateType():
            return _let(string.try_cast(type_), lambda date: sql.when(date.cast("string") == string, date))
        case types.TimestampType():
            zoned = sql.when(string.rlike(_ZONE + r"\z"), string).otherwise(sql.concat(string, sql.lit("Z")))
            return sql.when(string.rlike(rf"{_TIME}{_ZONE}?+\z"), _with_seconds(zoned).try_cast(type_))
        case types.TimestampNTZType():
            return sql.when(string.rlike(_TIME + r"\z"), _with_seconds(string).try_cast(type_))
        case _:
            return _bytes(string)


def _with_seconds(time: Column) -> Column:
    """Return the time with seconds: Spark reads no zone directly after the minutes."""
    from pyspark.sql import functions as sql

    return sql.regexp_replace(time, r"^(.{16})(?!:)", "$1:00")


def _bytes(string: Column) -> Column:
    """Decode base64."""
    from pyspark.sql import functions as sql

    def checked(made: Column) -> Column:
        return sql.when(sql.regexp_replace(sql.base64(made), r"\s", "") == string, made)

    return _let(sql.try_to_binary(string, sql.lit("base64")), checked)


def _digits(number: Column) -> tuple[Column, Column]:
    """Return the significant digits of a JSON number, and the power of ten by which they are multiplied."""
    from pyspark.sql import functions as sql

    lower = sql.lower(number)
    mantissa, power = (sql.split_part(lower, sql.lit("e"), sql.lit(part)) for part in (1, 2))
    fraction = sql.split_part(mantissa, sql.lit("."), sql.lit(2))
    digits = sql.regexp_replace(mantissa, r"^[-0.]+|\.", "")
    significant = sql.regexp_replace(digits, "0+$", "")
    given = sql.when(power == "", sql.lit(0)).otherwise(power.try_cast("int"))
    return significant, given - sql.length(fraction) + sql.length(digits) - sql.length(significant)


def _decimal(number: Column, type_: DataType) -> Column:
    """The number as a decimal, or null if it has more digits than the type."""
    from pyspark.sql import functions as sql

    significant, power = _digits(number)
    exact = (significant == "") | (power >= -type_.scale)  # type: ignore[attr-defined]
    return sql.when(exact, number.try_cast(type_))


class _Floating(NamedTuple):
    """A type of floating-point numbers. A decimal number of `safe` significant digits comes back from it unchanged.

    `most`: the digits that tell two of its numbers apart. `bits`: those of its fraction.
    """

    type: DataType
    safe: int
    most: int
    least: float
    greatest: float
    bits: int


def _floating(number: Column, kind: _Floating) -> Column:
    """The number as a float or double, or null if that would change a digit.

    A number of more than `safe` digits must be the one nearest to the result among the numbers of as many digits. That
    is so if a number further away, by half a unit of the last digit and half the distance of two results, has another
    result. Of two numbers that are equally near, the one with the even last digit is taken.
    """
    from pyspark.sql import functions as sql

    def checked(made: Column) -> Column:
        significant, power = _digits(number)
        size = sql.abs(made.cast("double"))
        unit = sql.concat(sql.lit("1e"), power.cast("string")).try_cast("double")
        binade = sql.pow(sql.lit(2.0), sql.floor(sql.log2(size)))  # log2 may be just wrong beside a power of two
        binade = sql.when(binade > size, binade / 2).when(2 * binade <= size, 2 * binade).otherwise(binade)
        spacing = sql.try_divide(binade * 2.0**-kind.bits, unit)
        tie = sql.when(significant.substr(-1, 1).isin("0", "2", "4", "6", "8"), 1).otherwise(-1)

        def away(distance: Column) -> Column:
            return (sql.round((distance + 1) / 2 * _FINE) + tie).cast("decimal(38,0)")

        fine = significant.substr(1, kind.most).try_cast("decimal(38,0)") * sql.lit(_FINE).cast("decimal(13,0)")
        exponent = sql.concat(sql.lit("e"), (power - 12).cast("string"))

        def result(of: Column) -> Column:
            return sql.concat(of.cast("string"), exponent).try_cast(kind.type).cast("double")

        # Below a power of two the results are twice as close. Among numbers that have it as their result, the nearest
        # counts, even if a nearer number has another result.
        is_denser = (binade == size) & (result(fine - sql.lit(_FINE).cast("decimal(13,0)")) == size)
        below = result(fine - away(sql.when(is_denser, spacing / 2).otherwise(spacing)))
        nearest = (result(fine + away(spacing)) > size) & (below < size)
        short = (sql.length(number) <= kind.safe) | (sql.length(significant) <= kind.safe)
        good = short | ((sql.length(significant) <= kind.most) & nearest)
        return sql.when(size.between(kind.least, kind.greatest), sql.when(good, made)).when(number.rlike(_ZERO), made)

    return _let(number.try_cast(kind.type), checked)
