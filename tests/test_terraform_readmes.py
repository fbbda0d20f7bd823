"""The READMEs below terraform/ say what the files say."""

from __future__ import annotations

from textwrap import dedent

from tests.terraform_readmes import Block, blocks, folders, outdated


def test_every_readme_is_up_to_date() -> None:
    assert len(folders()) >= 12
    assert outdated() == [], "make docs"


def test_variables_are_read_with_their_types_and_without_their_rules() -> None:
    text = dedent("""\
        variable "jobs" {
          description = "Jobs: \\"roll\\" and others."
          type = map(object({
            job = optional(string)
          }))
          default = {
            roll = {}
          }

          validation {
            condition     = length(var.jobs) > 0
            error_message = "jobs has a job."
          }
        }

        output "url" {
          description = "The address."
          value       = local.url
        }
        """)
    assert list(blocks(text)) == [
        Block(
            "variable",
            "jobs",
            {
                "description": '"Jobs: \\"roll\\" and others."',
                "type": "map(object({\n    job = optional(string)\n  }))",
                "default": "{\n    roll = {}\n  }",
            },
        ),
        Block("output", "url", {"description": '"The address."', "value": "local.url"}),
    ]
