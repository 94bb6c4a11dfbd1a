"""Create an issue. Written by dragoman generate, not for editing."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter
from typing_extensions import TypeAliasType

from ..runtime import OMIT, AsyncClient, Client, Model, Omit, ToolResult
from . import SERVICE


class CreateIssueLabel(Model):
    """A label"""

    name: str

    model_config_: int | None = Field(default=None, validation_alias="model_config", serialization_alias="model_config")
    """reserved"""

    list_: list[int | str] | None = Field(default=None, validation_alias="list", serialization_alias="list")


class CreateIssueNode(Model):
    """An object."""

    next: CreateIssueNode | None = None
    """may be null"""


CreateIssueJson = TypeAliasType("CreateIssueJson", "str | list[CreateIssueJson]")


class CreateIssueResultOwner(Model):
    """An object."""

    login: str


class CreateIssueResult(Model):
    """An object."""

    number: int

    owner: CreateIssueResultOwner | None = None


RESULT: TypeAdapter[CreateIssueResult] = TypeAdapter(CreateIssueResult)


def create_issue(
    client: Client,
    /,
    *,
    title: str,
    state: Literal["open", "closed", 1, True] | float | None,
    labels: list[CreateIssueLabel] | Omit = OMIT,
    from_: datetime | str | Omit = OMIT,
    day: date | str | None | Omit = OMIT,
    id: UUID | str | Omit = OMIT,
    x_key_1c6e79: float | Omit = OMIT,
    x_key_67b78a: bool | Omit = OMIT,
    parent: CreateIssueNode | Omit = OMIT,
    value: CreateIssueJson | Omit = OMIT,
    any: Any | Omit = OMIT,
    meta: dict[str, int] | Omit = OMIT,
    **others: str,
) -> ToolResult[CreateIssueResult]:
    """Creates an issue.

    Args:
        title: The title. In two lines \\ \"\"\" quoted"
        labels: Labels
        state: one of "open", "closed", null, 1, 1.5, true; default "open"
        from_: format date-time
        day: format date; may be null
        id: format uuid
        x_key_1c6e79: minimum 0
        x_key_67b78a:
        parent:
        value:
        any:
        meta:
    """
    return client.call(
        SERVICE,
        "create_issue",
        {**others, "title": title, "labels": labels, "state": state, "from": from_, "day": day, "id": id, "X-Key": x_key_1c6e79, "x key": x_key_67b78a, "parent": parent, "value": value, "any": any, "meta": meta},
        RESULT,
    )


async def create_issue_async(
    client: AsyncClient,
    /,
    *,
    title: str,
    state: Literal["open", "closed", 1, True] | float | None,
    labels: list[CreateIssueLabel] | Omit = OMIT,
    from_: datetime | str | Omit = OMIT,
    day: date | str | None | Omit = OMIT,
    id: UUID | str | Omit = OMIT,
    x_key_1c6e79: float | Omit = OMIT,
    x_key_67b78a: bool | Omit = OMIT,
    parent: CreateIssueNode | Omit = OMIT,
    value: CreateIssueJson | Omit = OMIT,
    any: Any | Omit = OMIT,
    meta: dict[str, int] | Omit = OMIT,
    **others: str,
) -> ToolResult[CreateIssueResult]:
    """Creates an issue.

    Args:
        title: The title. In two lines \\ \"\"\" quoted"
        labels: Labels
        state: one of "open", "closed", null, 1, 1.5, true; default "open"
        from_: format date-time
        day: format date; may be null
        id: format uuid
        x_key_1c6e79: minimum 0
        x_key_67b78a:
        parent:
        value:
        any:
        meta:
    """
    return await client.call(
        SERVICE,
        "create_issue",
        {**others, "title": title, "labels": labels, "state": state, "from": from_, "day": day, "id": id, "X-Key": x_key_1c6e79, "x key": x_key_67b78a, "parent": parent, "value": value, "any": any, "meta": meta},
        RESULT,
    )
