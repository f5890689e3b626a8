"""`python -m stepscope` is `stepscope`."""

from stepscope.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
