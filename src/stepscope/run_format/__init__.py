"""The run folder on disk: names of its files, records of the binary ones, and the options that a job is recorded with.

The recorder inside the job, the observers outside it and the importer share this package; it needs the standard library
of Python 3.9 only.
"""
