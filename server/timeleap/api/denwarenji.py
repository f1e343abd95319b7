"""The phone microwave: where a tool leaves a D-Mail and the agent's loop picks it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from pydantic import BaseModel, Field

from timeleap.errors import TimeleapError

if TYPE_CHECKING:
    from timeleap.api.message import Message


class DMail(BaseModel):
    """A note to an earlier self."""

    message: str = Field(description="What the earlier self should know.")
    checkpoint_id: int = Field(description="The checkpoint to go back to.", ge=0)


class DenwaRenjiError(TimeleapError):
    """The D-Mail cannot be sent."""

    kind = "invalidParams"


class BackToTheFuture(Exception):
    """Raised inside an agent's step to make its loop go back to a checkpoint.

    Args:
        checkpoint_id: Where to go back to.
        messages: What to append there.
    """

    def __init__(self, checkpoint_id: int, messages: Sequence[Message]) -> None:
        super().__init__(checkpoint_id, messages)
        self.checkpoint_id = checkpoint_id
        self.messages = messages


class _DMailParts(BaseModel):
    message: str
    checkpoint_id: int


class DenwaRenji:
    """Holds at most one D-Mail until it is fetched."""

    def __init__(self) -> None:
        self._pending: DMail | None = None
        self._n_checkpoints = 0

    def set_n_checkpoints(self, n_checkpoints: int) -> None:
        """Tell how many checkpoints there are; ids from that number on are refused."""
        self._n_checkpoints = n_checkpoints

    @overload
    def send_dmail(self, dmail: DMail, /) -> None: ...

    @overload
    def send_dmail(self, *, dmail: DMail) -> None: ...

    @overload
    def send_dmail(self, checkpoint_id: int, message: str) -> None: ...

    def send_dmail(
        self, checkpoint_id: DMail | int | None = None, message: str | None = None, *, dmail: DMail | None = None
    ) -> None:
        """Leave a D-Mail for the loop to deliver, as one object or as its two parts.

        Args:
            checkpoint_id: The checkpoint to go back to, or the whole D-Mail.
            message: What the earlier self should know.
            dmail: The whole D-Mail, by name.

        Raises:
            DenwaRenjiError: One is waiting already, or there is no such checkpoint.
            ValidationError: A part is not of its type (a ValueError).
        """
        if isinstance(checkpoint_id, DMail):
            dmail = checkpoint_id
        elif dmail is None:
            # The range is judged below, so that a negative id is the same error as one that is too large.
            whole = message is None and not isinstance(checkpoint_id, int | None)  # another library's D-Mail
            given = checkpoint_id if whole else {"checkpoint_id": checkpoint_id, "message": message}
            parts = _DMailParts.model_validate(given, from_attributes=True)
            dmail = DMail.model_construct(message=parts.message, checkpoint_id=parts.checkpoint_id)
        if self._pending is not None:
            raise DenwaRenjiError("a D-Mail is waiting already; there can be one at a time")
        # A DMail made without validation can carry any number.
        if not 0 <= dmail.checkpoint_id < self._n_checkpoints:
            raise DenwaRenjiError(
                f"there is no checkpoint {dmail.checkpoint_id} (0 to {self._n_checkpoints - 1} exist)"
            )
        self._pending = dmail

    def fetch_pending_dmail(self) -> DMail | None:
        """Take the waiting D-Mail out, if there is one."""
        pending, self._pending = self._pending, None
        return pending
