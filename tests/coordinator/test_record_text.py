"""Keys and values in words, and rules of what is masked in them."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.page.records.masks import MASKED, UNMASKED, Mask, MaskRule, mask_of, mask_rule
from sparklog.coordinator.page.records.record_query import MOST_COUNT, RecordQuery, ValueFormat, query_of
from sparklog.coordinator.page.records.record_text import SHOWN_BYTES, shown_bytes
from sparklog.core.errors import InvalidConfig, InvalidInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "value_format", "kind", "preview"),
    [
        (None, ValueFormat.AUTO, "null", ""),
        (b"", ValueFormat.HEX, "empty", ""),
        (b"plain", ValueFormat.AUTO, "text", "plain"),
        (b"plain", ValueFormat.JSON, "text", "plain"),
        (b"two\nlines", ValueFormat.AUTO, "text", "two lines"),
        (b'{"a": 1}', ValueFormat.AUTO, "JSON", '{ "a": 1 }'),
        (b'{"a": 1}', ValueFormat.TEXT, "text", '{"a": 1}'),
        (b'{"a": 1}', ValueFormat.HEX, "hex", "7b 22 61 22 3a 20 31 7d"),
        (b'{"a": 1', ValueFormat.AUTO, "text", '{"a": 1'),
        (b"x" * 120, ValueFormat.AUTO, "text", "x" * 120),
        (b"x" * 121, ValueFormat.AUTO, "text", "x" * 120 + "…"),
        (b" \n" * 999 + b"x", ValueFormat.AUTO, "text", "…"),
        (b"12", ValueFormat.AUTO, "text", "12"),
        (b"\xff\xfe", ValueFormat.AUTO, "hex", "ff fe"),
        (b"\xff\xfe", ValueFormat.TEXT, "text", "\ufffd\ufffd"),
        ("tür".encode(), ValueFormat.AUTO, "text", "tür"),
        (b"a\x00b", ValueFormat.AUTO, "hex", "61 00 62"),
        ("user\u202etxt".encode(), ValueFormat.AUTO, "hex", "75 73 65 72 e2 80 ae 74 78 74"),
    ],
)
def test_bytes_are_shown_in_the_format_that_fits(
    value: bytes | None, value_format: ValueFormat, kind: str, preview: str
) -> None:
    shown = shown_bytes(value, value_format)
    assert (shown.kind, shown.preview) == (kind, preview)


@given(value=st.binary(max_size=300) | JSON.map(msgspec.json.encode), value_format=st.sampled_from(ValueFormat))
def test_any_bytes_are_shown(value: bytes, value_format: ValueFormat) -> None:
    shown = shown_bytes(value, value_format)
    assert shown.size_bytes == len(value)
    assert len(shown.preview) <= 130
    if shown.kind == "JSON":
        assert msgspec.json.decode(shown.text) == msgspec.json.decode(value)


@pytest.mark.parametrize(
    "value", [b"x" * 99_999, "ü".encode() * 99_999, b"\x00" * 99_999, b"[" + b"1," * 50_000 + b"1]"]
)
def test_what_is_left_out_of_a_long_value_is_counted(value: bytes) -> None:
    shown = shown_bytes(value, ValueFormat.AUTO)
    assert len(shown.text) <= 5 * SHOWN_BYTES
    assert 0 < shown.left_out_bytes < len(value)


def test_deep_nesting_is_no_error() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert shown_bytes(deep, ValueFormat.AUTO).kind == "text"
    assert Mask(fields=(("a",),)).of_value(deep) == MASKED.encode()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("customers", MaskRule("customers")),
        ("pay-*:card.number", MaskRule("pay-*", "card.number")),
        ("*", MaskRule("*")),
        ("a:#key", MaskRule("a", "#key")),
        ("a:#headers", MaskRule("a", "#headers")),
    ],
)
def test_rules_are_read(text: str, rule: MaskRule) -> None:
    assert mask_rule(text) == rule


OTHER_LANGUAGES = ["a:.b", "a:$.b", "a: b", "a:b[]", "a:b[0].c", "a:b/c"]


@pytest.mark.parametrize(
    "text", ["", ":a", "a:", "a b", "a*b", "a:#other", "a:b..c", "a:b.", "x" * 251, *OTHER_LANGUAGES]
)
def test_bad_rules_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="wanted a rule like"):
        mask_rule(text)


def test_the_rules_of_a_topic_add_up() -> None:
    rules = [mask_rule(text) for text in ("pay-*:card.number", "pay-1:#key", "other", "*:ssn")]
    assert mask_of(rules, "pay-1") == Mask(key=True, fields=(("card", "number"), ("ssn",)))
    assert mask_of(rules, "other") == Mask(value=True, fields=(("ssn",),))
    assert mask_of((), "pay-1") == UNMASKED


@given(inner=JSON)
def test_nothing_below_a_masked_field_is_left(inner: object) -> None:
    mask = Mask(fields=(("a", "b"),))
    value = msgspec.json.encode([{"a": {"b": inner, "c": 1}}, {"a": [{"b": inner}]}, {"a": None}])
    masked = mask.of_value(value)
    assert masked is not None
    assert msgspec.json.decode(masked) == [{"a": {"b": MASKED, "c": 1}}, {"a": [{"b": MASKED}]}, {"a": None}]


@given(inner=JSON)
def test_a_mask_hides_too_much_rather_than_too_little(inner: object) -> None:
    mask = Mask(fields=(("a", "b"),))
    for value in ({"a.b": inner, "c": 1}, {"a": "in a string: 4111", "c": 1}, {"a": [5], "c": 1}):
        masked = mask.of_value(msgspec.json.encode(value))
        assert masked is not None
        (found, rest) = msgspec.json.decode(masked).values()
        assert found in (MASKED, [MASKED])
        assert rest == 1


@given(
    query=st.builds(
        RecordQuery,
        partition=st.none() | st.integers(0, 99),
        offset=st.none() | st.integers(0, 2**62),
        order=st.sampled_from(["newest", "oldest"]),
        count=st.integers(1, 500),
        find=st.text(max_size=20),
        key=st.text(max_size=20),
        value_format=st.sampled_from(ValueFormat),
        back=st.booleans(),
    )
)
def test_an_address_is_read_back_as_its_query(query: RecordQuery) -> None:
    address = urlsplit(query.address("a/b c"))
    assert address.path == "/topics/a%2Fb%20c/messages"
    found = query_of(dict(parse_qsl(address.query, keep_blank_values=True)))
    assert msgspec.to_builtins(found) == msgspec.to_builtins(query)


NAMES = ["partition", "offset", "time", "order", "count", "as", "find", "key", "at", "back", "live"]
TEXTS = st.text(max_size=30) | st.text("0123456789-,:TZ.+eE _", max_size=30)


@given(parameters=st.dictionaries(st.sampled_from(NAMES), TEXTS))
def test_any_query_is_one_or_is_refused(parameters: dict[str, str]) -> None:
    try:
        query = query_of(parameters)
    except InvalidInput:
        return
    assert 1 <= query.count <= MOST_COUNT
    assert query.time_us is None or query.time_us >= 0
    query_of(dict(parse_qsl(urlsplit(query.address("t")).query, keep_blank_values=True)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"[" * 300 + b"1" + b"]" * 300, "JSON"),
        (b"[" + b"[" * 300 + b"1" + b"]" * 300 + b",1" * 2_000 + b"]", "text"),
        (msgspec.json.encode([{"a": 1}] * 5_000), "JSON"),
    ],
    ids=["deep", "deep and long", "long"],
)
def test_a_value_that_would_grow_without_bound_is_not_indented(value: bytes, kind: str) -> None:
    assert shown_bytes(value, ValueFormat.AUTO).kind == kind
