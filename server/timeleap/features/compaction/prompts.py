"""Prompts for a model that summarises a conversation."""

from __future__ import annotations

SUMMARISER_SYSTEM_PROMPT = (
    "You write hand-over notes for a software agent: from a long conversation you keep what its next step depends on, "
    "and leave out the rest. You answer with the notes alone."
)

SUMMARY_PREFACE = "Previous context has been compacted. Here is the compaction output:"
"""Stands before every summary, in system tags; programs recognise compacted sessions by it."""

COMPACT = """\
---

Above stand the messages of a conversation between a user, an agent and its tools. They are about to be removed; your
notes will take their place, and the agent will go on with nothing but these notes and the latest messages.

Keep, the most important first:

1. The task at hand: what the user asked for, what is being done at this moment, what the next step is.
2. Errors and what solved them. Quote messages and the decisive lines of stack traces word for word.
3. The code as it stands now. Leave out versions that were replaced; say in a few words why an attempt failed.
4. The environment: layout of the project, dependencies, versions, settings, commands that work.
5. Decisions and the reasons for them.
6. What is left to do, and problems that are known but not solved.

How to write them:

- File paths, names in code, commands, numbers and the user's own demands stay exactly as they are.
- Code of fewer than 20 lines stays whole; of longer code keep signatures and the lines that matter.
- Say a thing once, however often it came up. Of a discussion keep what was decided and what is to be done.
- Leave out politeness, repetition and explanations that anybody can work out again.
- Invent nothing. If a section has nothing to hold, write "none" in it.

Answer in exactly this form:

<current_focus>
What is being worked on now, and the next step.
</current_focus>

<environment>
- One fact about the set-up a line
</environment>

<completed_tasks>
- Task: its outcome
</completed_tasks>

<active_issues>
- Issue: where it stands, what to try next
</active_issues>

<code_state>
<file>
path/of/the/file

**Summary:** what the file is for

**Key elements:**
- names of functions and classes that matter, and what they do

**Latest version:**
the code itself, or its essential lines
</file>
</code_state>

<important_context>
- Anything else the next step depends on: the user's demands, decisions, reasons
</important_context>
"""

CUSTOM_INSTRUCTION = """

**User's Custom Compaction Instruction:**
The user wants these notes to be written with the following in mind. Where it differs from the order of importance
above, the user's instruction goes first:
{instruction}"""


def request_text(custom_instruction: str = "") -> str:
    """The instruction that follows the messages.

    Args:
        custom_instruction: An instruction of the user's; empty for none.
    """
    if not custom_instruction:
        return "\n" + COMPACT
    return "\n" + COMPACT + CUSTOM_INSTRUCTION.format(instruction=custom_instruction)
