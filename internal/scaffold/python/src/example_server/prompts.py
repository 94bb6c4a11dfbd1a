"""The prompts. Add one by calling server.prompt."""

from .capabilities import ParameterSpec, Prompt, PromptExample, PromptMessage
from .server import Server


def register(server: Server) -> None:
    """Register the prompts of this module."""
    server.prompt(
        Prompt(
            name="code_review",
            description="Review code, with a focus.",
            parameters={
                "code": ParameterSpec("string", "the code to review", required=True),
                "language": ParameterSpec("string", "its language", default="python"),
                "focus": ParameterSpec(
                    "array",
                    'what to look at, as JSON: ["security"]',
                    default=["security", "performance"],
                ),
            },
            template=[
                PromptMessage("system", "You are an expert code reviewer. Name line and fix."),
                PromptMessage("user", "Review this {language} code focusing on {focus}:\n\n{code}"),
            ],
            timeout=server.config.prompt_timeout,
            examples=[
                PromptExample(
                    arguments={"code": "eval(input())", "focus": '["security"]'},
                    contains="Review this python code focusing on security:\n\neval(input())",
                )
            ],
        )
    )
