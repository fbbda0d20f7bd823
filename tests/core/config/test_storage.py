"""Settings of stores: which hold for which store, and which are secrets."""

from __future__ import annotations

from sparklog.core.config.storage import StorageSettings, storage_settings


def test_settings_are_sorted_into_secrets_and_others_without_case() -> None:
    found = storage_settings({"Zone-A.Region": "eu", "zone-a.SESSION_TOKEN": "s3cr3t"}, "tok")
    assert found == StorageSettings({"zone-a.region": "eu"}, {"zone-a.session_token": "s3cr3t"}, "tok")


def test_a_store_has_its_own_settings_and_no_others() -> None:
    found = storage_settings({"a.region": "eu", "a.b.region": "us", "ab.region": "cn", "a.password": "s3cr3t"})
    assert found.of("A") == {"region": "eu", "password": "s3cr3t"}
    assert found.of("a.b") == {"region": "us"}
    assert found.of("c") == {}


def test_keys_of_hadoops_configuration_have_dots() -> None:
    assert storage_settings({"a.dfs.replication": "2", "a.b.region": "eu"}).of("a") == {"dfs.replication": "2"}


def test_a_store_at_the_chains_own_address_is_reached_as_the_chain_is() -> None:
    found = storage_settings({"metadata.region": "eu", "metadata.profile": "ops", "a.region": "us"})
    assert found.of("a", at_root=True) == {"region": "us", "profile": "ops"}
    assert found.of("a") == {"region": "us"}


def test_a_key_id_does_not_travel_without_its_secret() -> None:
    found = storage_settings({"a.access_key_id": "id", "a.secret_access_key": "s", "a.region": "eu"})
    assert found.without_secrets() == storage_settings({"a.region": "eu"})
    role = storage_settings({"a.profile": "ops"})
    assert role.without_secrets() == role


def test_what_is_nearer_goes_before_what_is_farther_off() -> None:
    near, far = storage_settings({"a.region": "eu"}), storage_settings({"a.region": "us", "a.password": "p"}, "tok")
    assert near.over(far) == storage_settings({"a.region": "eu", "a.password": "p"}, "tok")
    assert far.over(near).of("a")["region"] == "us"


def test_what_coordinators_need_does_not_travel() -> None:
    settings = storage_settings({"a.region": "eu"}, "tok", "/ca.crt")
    assert settings.without_secrets() == storage_settings({"a.region": "eu"})
    assert "tok=" not in repr(settings)
    assert "token=***, ca='/ca.crt'" in repr(settings)
