"""Lets asserts of the shared suite say what they found."""

import pytest

pytest.register_assert_rewrite("tests.contract.object_store_contract")
