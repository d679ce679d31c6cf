"""`nox` runs `make quick`'s tests on each supported Python that this machine has."""

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def quick(session: nox.Session) -> None:
    """Run the tests that start no process."""
    session.install("--editable", ".[test]")
    session.run(
        *("python", "-m", "pytest", "tests", "--numprocesses", "auto", "--dist", "worksteal"),
        *("--hypothesis-profile", "quick", "-m", "not process", *session.posargs),
    )
