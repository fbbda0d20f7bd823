"""MiniStack as a process, with what it leaves out of a security group's rules put in: lists of prefixes."""

from __future__ import annotations

from typing import Any


def main() -> None:
    from ministack.app import main as serve
    from ministack.services import ec2

    parse: Any = ec2._parse_ip_permissions
    shown: Any = ec2._sg_rule_xml

    def with_prefix_lists(params: Any, prefix: str) -> list[dict[str, Any]]:
        rules: list[dict[str, Any]] = parse(params, prefix)
        for place, rule in enumerate(rules, 1):
            name = f"{prefix}.{place}.PrefixListIds.1"
            if found := ec2._p(params, f"{name}.PrefixListId"):
                rule["PrefixListIds"].append(
                    {"PrefixListId": found, "Description": ec2._p(params, f"{name}.Description") or ""}
                )
        return rules

    def shown_with_prefix_lists(group: str, rule: dict[str, Any], is_egress: bool = False) -> str:
        text: str = shown(group, rule, is_egress)
        for each in rule["PrefixListIds"]:
            text = text.replace("</item>", f"<prefixListId>{each['PrefixListId']}</prefixListId></item>")
        return text

    ec2._parse_ip_permissions = with_prefix_lists
    ec2._sg_rule_xml = shown_with_prefix_lists
    serve()


if __name__ == "__main__":
    main()
