"""`python -m benchmarks.processor`."""

from benchmarks.processor.command_line import main

if __name__ == "__main__":
    main(prog_name="python -m benchmarks.processor")
