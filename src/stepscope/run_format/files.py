"""Names of the files of a run folder (docs: the run folder)."""

__all__ = [
    "DEVICE_STEPS", "END", "ENDINGS", "FACTS", "LINES", "LOADING", "NOTES", "OLD_STEPS", "PROCESS", "PROCESSES", "RUN",
    "RUN_DIR", "SOURCES", "STEPS", "SYSTEM", "THREADS", "TUNING", "WINDOWS",
]  # fmt: skip

RUN_DIR = "STEPSCOPE_RUN_DIR"
"""Environment variable with the run folder: a Python process of the job that has it records itself."""

RUN = "run.json"
"""What was started, where, with which options: written first."""
TUNING = "tune.json"
"""In the folder of a tuning, beside the runs of its trials: what came of it, written at the end."""
END = "end.json"
"""How the command ended; absent while it runs and where the launcher was killed."""
SYSTEM = "system.jsonl"
"""The load of the machine, a line for each moment and figure."""
PROCESSES = "processes.jsonl"
"""A line for each Python process that imported torch."""
ENDINGS = "endings.jsonl"
"""A line for each process that has begun to end."""
LOADING = "loading"
"""Folder with the spans of data loading of all processes."""

NOTES = "notes.jsonl"
"""What was not recorded, and why: of the run, and in the folder of each process."""

PROCESS = "process.json"
"""In the folder of a process that trains: who it is."""
STEPS = "steps.bin"
OLD_STEPS = "steps.old.bin"
DEVICE_STEPS = "device_steps.bin"
LINES = "lines.bin"
FACTS = "facts.jsonl"
"""What the job trains with: loaders, optimizer, torch, devices."""
SOURCES = "sources.jsonl"
"""Lines around the places of the user's code that the files of the process name."""
THREADS = "threads.jsonl"
"""CPU time of Python threads, a line for each and second in which one beside the training thread was busy."""
WINDOWS = "windows.jsonl"
"""The traced windows, each with its trace or the reason why there is none."""
