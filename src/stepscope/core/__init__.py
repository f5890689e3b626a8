"""The vocabulary of stepscope: tables, runs, findings, reports and the maths of intervals."""
